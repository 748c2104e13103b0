"""Norm, RoPE and cache write on the device: one small program a head of q, k or v."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sfi_kernels.dispatch import interpreting


@triton.jit
def rope_kernel(
    QKV, COS, SIN, POSITIONS, K_PAGES, V_PAGES, TABLES, NORMS, Q_NORM, K_NORM, Q_OUT,
    stride_qkv, stride_table, stride_nb, stride_nh, eps,
    HQ: tl.constexpr, H: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PAGE: tl.constexpr,
    HAS_NORM: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """rot = h' cos + rotate_half(h') sin, rounded once; heads of v are copied. grid (B, HQ + 2 H)."""
    b = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, BLOCK_D)
    inside = d < D
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    p = tl.load(POSITIONS + b)
    row = QKV + b.to(tl.int64) * stride_qkv + head * D
    x = tl.load(row + d, mask=inside, other=0.0)
    if head < HQ + H:
        other = (d + D // 2) % D
        wide = x.to(tl.float32)
        partner = tl.load(row + other, mask=inside, other=0.0)
        turned = partner.to(tl.float32)
        if HAS_NORM:
            scale = 1.0 / tl.sqrt(tl.sum(wide * wide, 0) / D + eps)
            weight = Q_NORM if head < HQ else K_NORM
            wide = (wide * scale).to(x.dtype).to(tl.float32) * tl.load(weight + d, mask=inside, other=0.0).to(
                tl.float32
            )
            turned = (turned * scale).to(x.dtype).to(tl.float32) * tl.load(weight + other, mask=inside, other=0.0).to(
                tl.float32
            )
            wide = wide.to(x.dtype).to(tl.float32)
            turned = turned.to(x.dtype).to(tl.float32)
        turned = tl.where(d < D // 2, -turned, turned)
        at = p.to(tl.int64) * D + d
        cos = tl.load(COS + at, mask=inside, other=0.0).to(tl.float32)
        sin = tl.load(SIN + at, mask=inside, other=0.0).to(tl.float32)
        x = (wide * cos + turned * sin).to(x.dtype)
    if head < HQ:
        tl.store(Q_OUT + (b.to(tl.int64) * HQ + head) * D + d, x, mask=inside)
    else:
        h = (head - HQ) % H
        page = tl.load(TABLES + b.to(tl.int64) * stride_table + p // PAGE).to(tl.int64)
        at = ((page * H + h) * PAGE + p % PAGE) * D + d
        if head < HQ + H:
            stored = x.to(K_PAGES.dtype.element_ty)
            tl.store(K_PAGES + at, stored, mask=inside)
            key = stored.to(tl.float32)
            tl.store(NORMS + b.to(tl.int64) * stride_nb + h * stride_nh + p, tl.sqrt(tl.sum(key * key, 0)))
        else:
            tl.store(V_PAGES + at, x.to(V_PAGES.dtype.element_ty), mask=inside)


def run(qkv, cos, sin, positions, k_pages, v_pages, block_tables, key_norms, q_norm, k_norm, eps, pdl) -> torch.Tensor:
    """Launches the kernel; arguments as in `sfi_lab.runtime.ops.rope_write`."""
    batch, kv_heads, page, dim = qkv.shape[0], *k_pages.shape[1:]
    query_heads = qkv.shape[1] // dim - 2 * kv_heads
    q = torch.empty((batch, kv_heads, query_heads // kv_heads, dim), dtype=qkv.dtype, device=qkv.device)
    extra = {"launch_pdl": True} if pdl and not interpreting() else {}
    has_norm = q_norm is not None
    rope_kernel[(batch, query_heads + 2 * kv_heads)](
        qkv, cos, sin, positions, k_pages, v_pages, block_tables, key_norms, q_norm if has_norm else qkv,
        k_norm if has_norm else qkv, q, qkv.stride(0), block_tables.stride(0), *key_norms.stride()[:2], eps,
        HQ=query_heads, H=kv_heads, D=dim, BLOCK_D=triton.next_power_of_2(dim), PAGE=page, HAS_NORM=has_norm,
        PDL=bool(extra), num_warps=1, **extra,
    )  # fmt: skip
    return q
