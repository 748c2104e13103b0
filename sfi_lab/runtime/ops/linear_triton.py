"""The linear layer of few rows on the device: each program streams its rows of W once, nothing else is large.

The norm costs no pass of its own: (x · g / rms) Wᵀ = ((x · g) Wᵀ) / rms, so the squares are summed beside the products.
A launch with `pdl` starts while the one before still runs and asks for its weights (which no kernel writes) into L2
before it waits for that one's results.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sfi_kernels.dispatch import interpreting


@dataclass(frozen=True)
class LinearTuning:
    """Rows of W a program, keys of K a tile, warps and stages."""

    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 4


def tuning_for(n: int, k: int, gated: bool, rows: int) -> LinearTuning:
    """Measured on one H200 in bf16: small outputs want many small programs, large ones tiles that stream longer."""
    del k, rows
    if gated:
        return LinearTuning(32, 128, 4, 4) if n >= 8192 else LinearTuning(16, 256, 4, 3)
    if n >= 32768:
        return LinearTuning(64, 128, 4, 4)
    return LinearTuning(32, 128, 4, 5) if n >= 4096 else LinearTuning(16, 256, 4, 4)


@triton.jit
def fetch_weights(W, n, N, K, BLOCK_N: tl.constexpr, LINES: tl.constexpr):
    """Asks for the first LINES · 128 bytes of every row n of W to be brought into L2."""
    line = tl.arange(0, LINES) * 64
    at = W + n.to(tl.int64)[:, None] * K + line[None, :]
    at = tl.where((n < N)[:, None] & (line < K)[None, :], at, W)
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def linear_kernel(
    X, W, BIAS, NORM, RESIDUAL, OUT, M, N, K, stride_x, stride_r, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LINES: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr, GATED: tl.constexpr,
    UPCAST: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out[m, n] = act((x[m] · g) · W[n] / rms(x[m]) + bias[n]) + residual[m, n]; grid (ceil(outputs / BLOCK_N),)."""
    m = tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    if PDL:
        gdc_launch_dependents()
        fetch_weights(W, n, N, K, BLOCK_N, LINES)
        if GATED:
            fetch_weights(W + N.to(tl.int64) * K, n, N, K, BLOCK_N, LINES)
        gdc_wait()
    row = W + n.to(tl.int64)[:, None] * K
    up_row = row + N.to(tl.int64) * K
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    squares = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, K, BLOCK_K):
        at = start + k
        inside = at < K
        x = tl.load(X + m[:, None] * stride_x + at[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        w = tl.load(row + at[None, :], mask=(n < N)[:, None] & inside[None, :], other=0.0, eviction_policy="evict_first")
        if HAS_NORM:
            wide = x.to(tl.float32)
            squares += tl.sum(wide * wide, 1)
            x = (wide * tl.load(NORM + at, mask=inside, other=0.0).to(tl.float32)[None, :]).to(x.dtype)
        if UPCAST:  # the CPU interpreter multiplies float32 only
            acc += tl.dot(x.to(tl.float32), tl.trans(w).to(tl.float32), input_precision="ieee")
        else:
            acc = tl.dot(x, tl.trans(w), acc)
        if GATED:
            w2 = tl.load(up_row + at[None, :], mask=(n < N)[:, None] & inside[None, :], other=0.0, eviction_policy="evict_first")
            if UPCAST:
                up += tl.dot(x.to(tl.float32), tl.trans(w2).to(tl.float32), input_precision="ieee")
            else:
                up = tl.dot(x, tl.trans(w2), up)
    if HAS_NORM:
        scale = 1.0 / tl.sqrt(squares / K + eps)
        acc *= scale[:, None]
        up *= scale[:, None]
    if HAS_BIAS:
        acc += tl.load(BIAS + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
        if GATED:
            up += tl.load(BIAS + N + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if GATED:
        acc = acc / (1.0 + tl.exp(-acc)) * up
    mask = (m < M)[:, None] & (n < N)[None, :]
    if HAS_RESIDUAL:
        acc += tl.load(RESIDUAL + m[:, None] * stride_r + n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(OUT + m[:, None] * N + n[None, :], acc.to(OUT.dtype.element_ty), mask=mask)


def run(x, weight, bias, norm, eps, residual, gated, pdl, tuning: LinearTuning | None = None) -> torch.Tensor:
    """Launches the kernel; arguments as in `sfi_lab.runtime.ops.linear`."""
    rows, k = x.shape
    n = weight.shape[0] // 2 if gated else weight.shape[0]
    tuning = tuning or tuning_for(n, k, gated, rows)
    out = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    on_device = not interpreting()
    # at most 64 KiB a program is asked for ahead: beyond that the stream itself keeps memory busy
    lines = min(triton.next_power_of_2(triton.cdiv(k * x.element_size(), 128)), max(1, 512 // tuning.block_n))
    extra = {"launch_pdl": True} if pdl and on_device else {}
    linear_kernel[(triton.cdiv(n, tuning.block_n),)](
        x, weight, x if bias is None else bias, x if norm is None else norm, x if residual is None else residual, out,
        rows, n, k, x.stride(0), 0 if residual is None else residual.stride(0), eps,
        BLOCK_M=max(16, triton.next_power_of_2(rows)), BLOCK_N=tuning.block_n, BLOCK_K=tuning.block_k, LINES=lines,
        HAS_BIAS=bias is not None, HAS_NORM=norm is not None, HAS_RESIDUAL=residual is not None, GATED=gated,
        UPCAST=not on_device, PDL=bool(extra), num_warps=tuning.warps, num_stages=tuning.stages, **extra,
    )  # fmt: skip
    return out
