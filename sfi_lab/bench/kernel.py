"""The attention kernels alone: dense against torch's SDPA, and sparse against our own dense kernel by share kept."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sfi_kernels import dense_decode, plan_step, sparse_decode
from sfi_lab.bench.bound import against, read_rate
from sfi_lab.bench.configs import shape_of
from sfi_lab.bench.machine import machine
from sfi_lab.bench.timing import graphed_ms

SHARES = (0.016, 0.063, 0.125, 0.25, 0.375, 0.5, 0.75, 0.984, 1.0)  # the paper's table 1
_PAPER = dict(zip(SHARES, (10.67, 9.56, 7.15, 3.96, 2.75, 2.10, 1.43, 1.10, 1.00), strict=True))
_SINK, _RECENT, _PAGE = 4, 256, 64


@dataclass(frozen=True)
class KernelCase:
    """One layer's attention of a named config."""

    config: str = "qwen3-4b"
    context: int = 131072
    batch: int = 4
    device: str = "cuda"
    dtype: str = "bfloat16"


class _Layer:
    """Random pages, queries and packed memory of one layer. Large enough that no cache holds them on a GPU."""

    def __init__(self, case: KernelCase) -> None:
        shape = shape_of(case.config)
        self.case, self.device, dtype = case, torch.device(case.device), getattr(torch, case.dtype)
        self.heads = shape["num_key_value_heads"]
        self.group = shape["num_attention_heads"] // self.heads
        self.dim = shape.get("head_dim", shape["hidden_size"] // shape["num_attention_heads"])
        like = {"dtype": dtype, "device": self.device}
        torch.manual_seed(0)
        pages = -(-case.context // _PAGE)
        self.k, self.v = (torch.randn(case.batch * pages, self.heads, _PAGE, self.dim, **like) for _ in range(2))
        order = torch.randperm(case.batch * pages, device=self.device, dtype=torch.int32)
        self.tables = order.view(case.batch, pages)
        self.q = torch.randn(case.batch, self.heads, self.group, self.dim, **like)
        self.lengths = torch.full((case.batch,), case.context, dtype=torch.int32, device=self.device)
        self.scale = self.dim**-0.5
        self.shape = {"heads": self.heads, "group": self.group, "dim": self.dim, "element_size": dtype.itemsize}
        self.row_bytes = 2 * case.batch * self.heads * self.dim * dtype.itemsize

    def times(self, call: Any, copies: int = 8) -> float:
        """Median milliseconds of a call."""
        return graphed_ms([call] * copies, self.device)


def measure(case: KernelCase) -> list[dict[str, Any]]:
    """Rows: dense, dense with scores, torch's SDPA on contiguous K/V of the same size (the backend it chooses, and on a
    GPU its flash kernel by name), sparse for each share kept."""
    layer = _Layer(case)
    rate, facts = read_rate(layer.device), machine(layer.device)
    dense = _dense(layer)
    full = case.context * layer.row_bytes

    def row(arm: str, ms: float, moved: int, **more: Any) -> dict[str, Any]:
        return {
            "bench": "kernel", "config": case.config, "arm": arm, "context": case.context, "batch": case.batch, "ms": round(ms, 5),
            **against(ms, moved, rate), "read_rate_gb_per_s": round(rate, 1), "over_dense": round(dense / ms, 3),
            "kept": None, "paper_over_dense": None, "dtype": case.dtype, **more, **facts,
        }  # fmt: skip

    scored = full + case.batch * layer.heads * layer.group * case.context * 2
    rows = [row("dense", dense, full), row("dense with scores", _scored(layer), scored)]
    rows += [row(arm, ms, full) for arm, ms in _sdpa(layer).items()]
    for share in SHARES:
        kept = min(case.context, max(_SINK + _RECENT + 1, round(share * case.context)))
        rows.append(
            row("sparse", _sparse(layer, kept), kept * layer.row_bytes, kept=kept, paper_over_dense=_PAPER[share])
        )
    return rows


def _dense(layer: _Layer) -> float:
    plan = plan_step(layer.lengths, **layer.shape)
    return layer.times(
        lambda: dense_decode(layer.q, layer.k, layer.v, layer.tables, layer.lengths, layer.scale, plan=plan)
    )


def _scored(layer: _Layer) -> float:
    plan = plan_step(layer.lengths, **layer.shape)
    scores = torch.empty(*layer.q.shape[:3], layer.case.context, dtype=torch.float16, device=layer.device)
    lse = torch.empty(layer.q.shape[:3], device=layer.device)
    start = layer.lengths - _RECENT
    return layer.times(
        lambda: dense_decode(
            layer.q, layer.k, layer.v, layer.tables, layer.lengths, layer.scale, plan=plan, scores=scores, score_lse=lse,
            sink=_SINK, recent_start=start,
        )
    )  # fmt: skip


def _sdpa(layer: _Layer) -> dict[str, float]:
    shape = (layer.case.batch, layer.heads, -1, layer.dim)
    k, v = layer.k.view(shape), layer.v.view(shape)

    def call() -> torch.Tensor:
        return F.scaled_dot_product_attention(layer.q, k, v, scale=layer.scale)

    found = {"sdpa": layer.times(call)}
    if layer.device.type == "cuda" and layer.case.dtype != "float32":
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            found["sdpa flash"] = layer.times(call)
    return found


def _sparse(layer: _Layer, kept: int) -> float:
    """Several packed buffers in turn where one would stay in the cache."""
    batch, rows = layer.case.batch, kept - _RECENT
    like = {"dtype": layer.q.dtype, "device": layer.device}
    copies = 1 if layer.device.type != "cuda" else max(2, min(16, int(4e8 / (kept * layer.row_bytes))))
    counts = torch.full((batch, layer.heads), rows, dtype=torch.int32, device=layer.device)
    start, route = layer.lengths - _RECENT, torch.zeros_like(layer.lengths)
    packed_len = torch.full_like(layer.lengths, rows)
    plan = plan_step(layer.lengths, packed_len=packed_len, recent_start=start, route=route, **layer.shape)
    calls = []
    for _ in range(copies):
        k, v = (torch.randn(batch, layer.heads, rows, layer.dim, **like) for _ in range(2))
        calls.append(
            functools.partial(
                sparse_decode, layer.q, layer.k, layer.v, layer.tables, layer.lengths, k, v, counts, start, route, layer.scale,
                plan=plan,
            )
        )  # fmt: skip
    return graphed_ms(calls * max(1, 8 // copies), layer.device)
