"""How much memory a batch will take, said before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sfi_lab.errors import SfiError

RING = 4  # score buffers that the asynchronous selector works from (paper, system section)
_RESERVE = 0.03  # of the device, left to libraries, workspaces and fragmentation


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of an engine's buffers, by part. Shapes as in the engine; k is 0 where nothing will ever be selected."""

    layers: int
    query_heads: int
    kv_heads: int
    dim: int
    vocab: int
    batch: int
    length: int  # positions a sequence, rounded up to pages
    sink: int
    k: int
    page_size: int
    element_size: int

    @property
    def rows(self) -> int:
        """Rows of packed memory a sequence, layer and KV head."""
        return self.sink + self.k if self.k else 0

    @property
    def pages(self) -> int:
        """Pages of one layer: every sequence has its own, nothing is shared or evicted."""
        return self.batch * -(-self.length // self.page_size)

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by part."""
        heads, positions = self.layers * self.batch * self.kv_heads, self.pages // self.batch * self.page_size
        selects = self.rows > 0
        score_size = 4 if self.element_size == 4 else 2
        scores = self.batch * self.query_heads * self.length * score_size
        return {
            "K/V pages": 2 * heads * positions * self.dim * self.element_size,
            "key norms": 4 * heads * (positions + self.sink),
            "packed memory": 2 * heads * self.rows * self.dim * self.element_size,
            "score ring": RING * scores if selects else 0,
            # z_adj, f and a Top-K's counts for the layer in work
            "selector": 12 * self.batch * self.kv_heads * self.length if selects else 0,
            "logits": 12 * self.batch * self.vocab,
            "RoPE table": 2 * positions * self.dim * self.element_size,
        }

    @property
    def total(self) -> int:
        """All parts together, bytes; the model's weights are there already."""
        return sum(self.parts.values())

    def check(self, free: int | None) -> None:
        """Raises SfiError, saying what would fit, if the plan needs more than `free` bytes. None: unknown, no check."""
        if free is None or self.total <= free:
            return
        fewer = _largest(lambda batch: replace(self, batch=batch).total <= free, self.batch)
        shorter = _largest(
            lambda blocks: replace(self, length=blocks * self.page_size).total <= free, self.length // self.page_size
        )
        fits = [f"a batch of {fewer} at this length"] if fewer else []
        fits += [f"this batch with {shorter * self.page_size:,} positions each"] if shorter else []
        raise SfiError(
            f"a batch of {self.batch} with {self.length:,} positions each needs {_gb(self.total)} beside the model's weights "
            f"({', '.join(f'{name} {_gb(size)}' for name, size in self.parts.items() if size)}), {_gb(free)} are free; "
            + (f"what fits: {' or '.join(fits)}" if fits else "not even one sequence of one page fits")
        )


def free_bytes(device: torch.device) -> int | None:
    """Bytes that can be allocated on a CUDA device, a reserve left out; None for others."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + cached - _RESERVE * total)


def _largest(fits, high: int) -> int:
    """The largest n in 0 … high with fits(n), which is true up to some n and false above."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
