"""A refresh of one layer alone: scores, Top-K and packing, beside the same selector in torch operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sfi_kernels import pack_memory, select_scores, top_k
from sfi_lab.bench.bound import against, read_rate
from sfi_lab.bench.configs import shape_of
from sfi_lab.bench.machine import machine
from sfi_lab.bench.timing import graphed_ms, median_ms
from sfi_lab.selector import equations as eq
from sfi_lab.selector.select import evidence_of, prior_of
from sfi_lab.settings import Settings

_PAGE = 64


@dataclass(frozen=True)
class SelectorCase:
    """One layer's refresh of a named config: `context` candidates a sequence."""

    config: str = "qwen3-0.6b"
    context: int = 131072
    batch: int = 1
    k: int = 2048
    device: str = "cuda"
    dtype: str = "bfloat16"


class _Layer:
    """Logits, norms and pages of one layer's refresh; `sets` of them so that no cache holds them all."""

    def __init__(self, case: SelectorCase, settings: Settings) -> None:
        shape, self.device, dtype = shape_of(case.config), torch.device(case.device), getattr(torch, case.dtype)
        heads = shape["num_key_value_heads"]
        group = shape["num_attention_heads"] // heads
        dim = shape.get("head_dim", shape["hidden_size"] // shape["num_attention_heads"])
        score = torch.float16 if dtype.itemsize == 2 else dtype
        torch.manual_seed(0)
        pages = -(-(case.context + settings.sink) // _PAGE)
        self.settings, self.k = settings, min(case.k, case.context)
        self.logits = torch.randn(case.batch, heads, group, case.context, device=self.device).to(score)
        self.lse = torch.logsumexp(self.logits.float(), -1)
        self.norms = torch.rand(case.batch, heads, case.context, device=self.device) + 5
        self.n = torch.full((case.batch,), case.context, dtype=torch.int32, device=self.device)
        self.lengths = self.n + settings.sink
        like = {"dtype": dtype, "device": self.device}
        self.k_pages, self.v_pages = (torch.randn(case.batch * pages, heads, _PAGE, dim, **like) for _ in range(2))
        self.tables = torch.randperm(case.batch * pages, device=self.device, dtype=torch.int32).view(case.batch, pages)
        self.packed = [torch.empty(case.batch, heads, settings.sink + self.k, dim, **like) for _ in range(2)]
        self.counts = torch.empty(case.batch, heads, dtype=torch.int32, device=self.device)
        self.z = torch.empty(case.batch, heads, case.context, device=self.device)
        self.chosen = torch.empty(case.batch, heads, self.k, dtype=torch.int32, device=self.device)
        rows = heads * case.batch
        # logits and norms read once, the selected K/V read and written: what no implementation can avoid
        self.least = self.logits.nbytes + self.norms.nbytes + 4 * rows * self.k * dim * dtype.itemsize

    def score(self) -> Tensor:
        """z_adj of every candidate."""
        given = self.settings.selector(self.logits.shape[2])
        return select_scores(self.logits, self.norms, self.n, lse=self.lse, out=self.z, **given)

    def top(self) -> Tensor:
        """The K best."""
        return top_k(self.z, self.n, self.k, first=self.settings.sink, out=self.chosen)

    def pack(self) -> None:
        """Their K/V side by side."""
        pack_memory(
            self.chosen,
            self.k_pages,
            self.v_pages,
            self.tables,
            self.lengths,
            *self.packed,
            self.counts,
            sink=self.settings.sink,
        )

    def refresh(self) -> None:
        """All three."""
        self.score()
        self.top()
        self.pack()

    def in_torch(self) -> None:
        """The reference's equations, sequence by sequence, with torch.topk and an index gather; ties as topk breaks them."""
        for b in range(len(self.n)):
            f, r = evidence_of(self.logits[b], self.settings), prior_of(self.norms[b], self.settings)
            lam = eq.balance(f, r, self.settings.lam_clip_for(self.logits.shape[2]))
            z = eq.log_score(eq.fuse(f, r, lam))
            z = eq.exclusive(
                eq.soft_nms(z, self.settings.nms_radius, self.settings.nms_strength),
                self.settings.exclusivity,
                self.settings.temperature,
            )
            at = torch.topk(z, self.k, dim=-1).indices.sort(-1).values + self.settings.sink
            page = self.tables[b].long()[at // _PAGE]
            head = torch.arange(at.shape[0], device=at.device)[:, None]
            for pages, packed in zip((self.k_pages, self.v_pages), self.packed, strict=True):
                packed[b, :, self.settings.sink :] = pages[page, head, at % _PAGE]


def measure(case: SelectorCase) -> list[dict[str, Any]]:
    """Rows: scores, Top-K, pack, all three, and all three in torch operations."""
    layer = _Layer(case, Settings.paper(k=case.k))
    rate, facts = read_rate(layer.device), machine(layer.device)
    rows = []
    layer.refresh()
    arms = {"scores": layer.score, "top_k": layer.top, "pack": layer.pack, "refresh": layer.refresh}
    for arm, call in arms.items():
        rows.append((arm, graphed_ms([call] * 8, layer.device)))
    rows.append(("refresh in torch", median_ms(layer.in_torch, layer.device)))
    whole = ("refresh", "refresh in torch")
    return [
        {
            "bench": "selector", "config": case.config, "arm": arm, "context": case.context, "batch": case.batch, "k": layer.k,
            "ms": round(ms, 5), **(against(ms, layer.least, rate) if arm in whole else {"bytes": None, "bound_ms": None, "bound_share": None, "gb_per_s": None}),
            "read_rate_gb_per_s": round(rate, 1), "dtype": case.dtype, **facts,
        }
        for arm, ms in rows
    ]  # fmt: skip
