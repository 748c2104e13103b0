"""The linear layer of few rows on the device: every program streams its rows of W once, nothing else is large.

With 16 rows of x padded and 8 or 16 rows of W, one matrix instruction covers a tile, so warps can only share the work
along K: a tile is [warps, rows, K] and the products are a batch of dots, one a warp, added up at the end. The norm costs
no pass of its own: (x · g / rms) Wᵀ = ((x · g) Wᵀ) / rms, so the squares are summed beside the products. A launch with
`pdl` starts while the one before still runs, asks for its weights (which no kernel writes) and then waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from sfi_kernels.dispatch import interpreting
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@dataclass(frozen=True)
class LinearTuning:
    """Rows of W a program, columns of K a warp and tile, warps, stages, and bytes a row asked for ahead (with pdl)."""

    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 4
    ahead: int = 0


def tuning_for(n: int, k: int, gated: bool) -> LinearTuning:
    """Measured on one H200 in bf16 with 6 and 8 rows: small outputs want many small programs."""
    del k
    if gated or n >= 32768:
        return LinearTuning(16, 64, 4, 4)
    return LinearTuning(16, 64, 4, 4) if n >= 4096 else LinearTuning(8, 64, 4, 4)


@triton.jit
def ask_for(W, n, N, K, LINES: tl.constexpr):
    """Has the first LINES · 128 bytes of every row n of W brought into L2."""
    line = tl.arange(0, LINES) * 64
    at = W + n.to(tl.int64)[:, None] * K + line[None, :]
    at = tl.where((n < N)[:, None] & (line < K)[None, :], at, W)
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def product(x, w, acc, UPCAST: tl.constexpr):
    """acc + x wᵀ, a warp its own part of K. x [P, M, BK], w [P, N, BK], acc [P, M, N]."""
    wt = tl.permute(w, (0, 2, 1))
    if UPCAST:  # the CPU interpreter multiplies float32 only
        return acc + tl.dot(x.to(tl.float32), wt.to(tl.float32), input_precision="ieee")
    return tl.dot(x, wt, acc)


@triton.jit
def linear_kernel(
    X, W, BIAS, NORM, RESIDUAL, OUT, M, N, K, stride_x, stride_r, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PARTS: tl.constexpr, LINES: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr, GATED: tl.constexpr,
    UPCAST: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out[m, n] = act((x[m] · g) · W[n] / rms(x[m]) + bias[n]) + residual[m, n]; grid (ceil(outputs / BLOCK_N),)."""
    m = tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, PARTS)[:, None, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, None, :]
    if PDL:
        gdc_launch_dependents()
        if LINES > 0:
            ask_for(W, n, N, K, LINES)
            if GATED:
                ask_for(W + N.to(tl.int64) * K, n, N, K, LINES)
        gdc_wait()
    row = W + n.to(tl.int64)[None, :, None] * K
    up_row = row + N.to(tl.int64) * K
    in_m = (m < M)[None, :, None]
    in_n = (n < N)[None, :, None]
    acc = tl.zeros([PARTS, BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([PARTS, BLOCK_M, BLOCK_N], tl.float32)
    squares = tl.zeros([PARTS, BLOCK_M, BLOCK_K], tl.float32)
    for start in range(0, K, PARTS * BLOCK_K):
        at = start + column
        inside = at < K
        x = tl.load(X + m[None, :, None] * stride_x + at, mask=in_m & inside, other=0.0)
        w = tl.load(row + at, mask=in_n & inside, other=0.0)
        if HAS_NORM:
            wide = x.to(tl.float32)
            squares += wide * wide
            x = (wide * tl.load(NORM + at, mask=inside, other=0.0).to(tl.float32)).to(x.dtype)
        acc = product(x, w, acc, UPCAST)
        if GATED:
            up = product(x, tl.load(up_row + at, mask=in_n & inside, other=0.0), up, UPCAST)
    out = tl.sum(acc, 0)
    gate_up = tl.sum(up, 0)
    if HAS_NORM:
        scale = 1.0 / tl.sqrt(tl.sum(tl.sum(squares, 2), 0) / K + eps)
        out *= scale[:, None]
        gate_up *= scale[:, None]
    if HAS_BIAS:
        out += tl.load(BIAS + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
        if GATED:
            gate_up += tl.load(BIAS + N + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if GATED:
        out = out / (1.0 + tl.exp(-out)) * gate_up
    mask = (m < M)[:, None] & (n < N)[None, :]
    if HAS_RESIDUAL:
        out += tl.load(RESIDUAL + m[:, None] * stride_r + n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(OUT + m[:, None] * N + n[None, :], out.to(OUT.dtype.element_ty), mask=mask)


def run(x, weight, bias, norm, eps, residual, gated, pdl, tuning: LinearTuning | None = None) -> torch.Tensor:
    """Launches the kernel; arguments as in `sfi_lab.runtime.ops.linear`."""
    rows, k = x.shape
    n = weight.shape[0] // 2 if gated else weight.shape[0]
    tuning = tuning or tuning_for(n, k, gated)
    out = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    on_device = not interpreting()
    extra = {"launch_pdl": True} if pdl and on_device else {}
    linear_kernel[(triton.cdiv(n, tuning.block_n),)](
        x, weight, x if bias is None else bias, x if norm is None else norm, x if residual is None else residual, out,
        rows, n, k, x.stride(0), 0 if residual is None else residual.stride(0), eps,
        BLOCK_M=max(16, triton.next_power_of_2(rows)), BLOCK_N=tuning.block_n, BLOCK_K=tuning.block_k, PARTS=tuning.warps,
        LINES=tuning.ahead // 128, HAS_BIAS=bias is not None, HAS_NORM=norm is not None, HAS_RESIDUAL=residual is not None,
        GATED=gated, UPCAST=not on_device, PDL=bool(extra), num_warps=tuning.warps, num_stages=tuning.stages, **extra,
    )  # fmt: skip
    return out
