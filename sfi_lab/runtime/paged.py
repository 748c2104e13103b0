"""The full cache in pages, and the packed memory beside it: every tensor a captured step reads, at a fixed address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from sfi_kernels import write_cache
from sfi_lab.compat import KVCache
from sfi_lab.runtime.memory_plan import MemoryPlan


@dataclass(frozen=True)
class Packed:
    """Sink and selected K/V of one layer, and the positions they came from."""

    k: Tensor  # [B, H_kv, sink + K, D]
    v: Tensor
    counts: Tensor  # int32 [B, H_kv], rows in use
    positions: Tensor  # int32 [B, H_kv, K], the selected ones, -1 behind them


@dataclass(frozen=True)
class _Target:
    """Where a forward's new rows go."""

    tables: Tensor  # int32 [n, max_pages]
    positions: Tensor  # int32 [n], of each sequence's first new token
    sequences: slice


class PagedCache(KVCache):
    """K/V of a batch in pages, at original absolute positions; nothing is evicted.

    A model's forward appends to the sequences that `writing` names. It gets back what it handed in: attention here
    reads the pages, never what the cache returns.
    """

    def __init__(self, plan: MemoryPlan, dtype: torch.dtype, device: torch.device, backend: str | None = None) -> None:
        super().__init__(plan.layers)
        self.plan, self.backend = plan, backend
        batch, heads, per_sequence = plan.batch, plan.kv_heads, plan.pages // plan.batch
        shape, like = (plan.pages, heads, plan.page_size, plan.dim), {"dtype": dtype, "device": device}
        self.capacity = per_sequence * plan.page_size
        self.k_pages = [torch.zeros(shape, **like) for _ in range(plan.layers)]
        self.v_pages = [torch.zeros(shape, **like) for _ in range(plan.layers)]
        # longer by the sinks, so that the candidates' part is as wide as the score buffers
        norms = self.capacity + -(-plan.sink // 16) * 16
        self.norms = [torch.zeros(batch, heads, norms, device=device) for _ in range(plan.layers)]
        self.tables = torch.arange(plan.pages, dtype=torch.int32, device=device).view(batch, per_sequence)
        self.packed = [_packed(plan, like) for _ in range(plan.layers)] if plan.k else []
        self._target: _Target | None = None
        self._announced = 0

    @contextmanager
    def writing(self, positions: Tensor, sequence: int | None = None, announced: int = 0) -> Iterator[None]:
        """While it lasts, rows are written from `positions` (int32 [n], on the device) on, for one sequence or all.

        announced: the length a model's mask code is told; it decides nothing here.
        """
        part = slice(None) if sequence is None else slice(sequence, sequence + 1)
        self._target, self._announced = _Target(self.tables[part], positions, part), announced
        try:
            yield
        finally:
            self._target = None

    def append(self, layer_idx: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k, v [n, H_kv, T, D], returned as they are."""
        to = self._target
        write_cache(
            k.transpose(1, 2), v.transpose(1, 2), self.k_pages[layer_idx], self.v_pages[layer_idx], to.tables, to.positions,
            key_norms=self.norms[layer_idx][to.sequences], backend=self.backend,
        )  # fmt: skip
        return k, v

    def length(self, layer_idx: int = 0) -> int:
        """Positions stored before the current forward, as announced."""
        return self._announced

    def rows(self, layer: int, sequence: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `length` positions of one sequence, copied side by side, [H_kv, length, D]."""
        used = self.tables[sequence, : -(-length // self.plan.page_size)].long()
        k, v = (pages[layer][used].transpose(0, 1).flatten(1, 2)[:, :length] for pages in (self.k_pages, self.v_pages))
        return k, v

    def put(self, layer: int, sequence: int, k: Tensor, v: Tensor) -> None:
        """Stores positions 0 … T - 1 of one sequence. k, v [H_kv, T, D]."""
        start = torch.zeros(1, dtype=torch.int32, device=k.device)
        with self.writing(start, sequence):
            self.append(layer, k[None], v[None])


def _packed(plan: MemoryPlan, like: dict) -> Packed:
    shape = (plan.batch, plan.kv_heads, plan.rows, plan.dim)
    device = like["device"]
    return Packed(
        torch.zeros(shape, **like),
        torch.zeros(shape, **like),
        torch.zeros(shape[:2], dtype=torch.int32, device=device),
        torch.full((*shape[:2], plan.k), -1, dtype=torch.int32, device=device),
    )
