"""The linear layer of few rows on the device: every program streams its rows of W once, nothing else is large.

With 16 rows of x padded and 8 or 16 rows of W, one matrix instruction covers a tile, so warps can only share the work
along K: a tile is [warps, rows, K] and the products are a batch of dots, one a warp, added up at the end. A norm costs no
pass of its own: (x · g / rms) Wᵀ = ((x · g) Wᵀ) / rms, where x · g and the parts of Σ x² come from whoever wrote x.
A launch with `pdl` starts while the one before still runs, and then waits for it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sfi_kernels.dispatch import interpreting
from sfi_lab.runtime.ops.linear import Stream
from sfi_lab.runtime.ops.linear_tuning import LinearTuning, tuning_for


@triton.jit
def product(x, w, acc, UPCAST: tl.constexpr):
    """acc + x wᵀ, a warp its own part of K. x [P, M, BK], w [P, N, BK], acc [P, M, N]."""
    wt = tl.permute(w, (0, 2, 1))
    if UPCAST:  # the CPU interpreter multiplies float32 only
        return acc + tl.dot(x.to(tl.float32), wt.to(tl.float32), input_precision="ieee")
    return tl.dot(x, wt, acc)


@triton.jit
def store_stream(
    out, SCALED, SQUARES, NEXT, m, n, M, N, at, mask, DTYPE: tl.constexpr,
):  # fmt: skip
    """Beside the stream itself: hidden · next norm's weight, and this program's part of Σ hidden² of every row."""
    hidden = out.to(DTYPE).to(tl.float32)
    weight = tl.load(NEXT + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(SCALED + at, (hidden * weight[None, :]).to(DTYPE), mask=mask)
    squares = tl.sum(tl.where(mask, hidden * hidden, 0.0), 1)
    tl.store(SQUARES + tl.program_id(0) * M + m, squares, mask=m < M)


@triton.jit
def linear_kernel(
    X, W, BIAS, X_SQUARES, RESIDUAL, NEXT, OUT, SCALED, SQUARES, M, N, K, stride_x, stride_r, x_parts, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PARTS: tl.constexpr, BLOCK_P: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_NEXT: tl.constexpr,
    GATED: tl.constexpr, UPCAST: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out[m, n] = act(x[m] · W[n] / rms(m) + bias[n]) + residual[m, n]; grid (ceil(outputs / BLOCK_N),)."""
    m = tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, PARTS)[:, None, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, None, :]
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = W + n.to(tl.int64)[None, :, None] * K
    up_row = row + N.to(tl.int64) * K
    in_m = (m < M)[None, :, None]
    in_n = (n < N)[None, :, None]
    acc = tl.zeros([PARTS, BLOCK_M, BLOCK_N], tl.float32)
    up = tl.zeros([PARTS, BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, PARTS * BLOCK_K):
        at = start + column
        inside = at < K
        x = tl.load(X + m[None, :, None] * stride_x + at, mask=in_m & inside, other=0.0)
        w = tl.load(row + at, mask=in_n & inside, other=0.0)
        acc = product(x, w, acc, UPCAST)
        if GATED:
            up = product(x, tl.load(up_row + at, mask=in_n & inside, other=0.0), up, UPCAST)
    out = tl.sum(acc, 0)
    gate_up = tl.sum(up, 0)
    if HAS_NORM:
        p = tl.arange(0, BLOCK_P)
        total = tl.zeros([BLOCK_M], tl.float32)
        for start in range(0, x_parts, BLOCK_P):
            there = ((start + p) < x_parts)[:, None] & (m < M)[None, :]
            total += tl.sum(tl.load(X_SQUARES + (start + p)[:, None] * M + m[None, :], mask=there, other=0.0), 0)
        scale = 1.0 / tl.sqrt(total / K + eps)
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
    at_out = m[:, None] * N + n[None, :]
    tl.store(OUT + at_out, out.to(OUT.dtype.element_ty), mask=mask)
    if HAS_NEXT:
        store_stream(out, SCALED, SQUARES, NEXT, m, n, M, N, at_out, mask, OUT.dtype.element_ty)


@triton.jit
def embed_kernel(TOKENS, TABLE, NEXT, OUT, SCALED, SQUARES, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Rows of the embedding as a stream; grid (ceil(K / BLOCK_N),)."""
    m = tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    token = tl.load(TOKENS + m, mask=m < M, other=0).to(tl.int64)
    mask = (m < M)[:, None] & (n < K)[None, :]
    x = tl.load(TABLE + token[:, None] * K + n[None, :], mask=mask, other=0.0)
    at = m[:, None] * K + n[None, :]
    tl.store(OUT + at, x, mask=mask)
    store_stream(x.to(tl.float32), SCALED, SQUARES, NEXT, m, n, M, K, at, mask, OUT.dtype.element_ty)


def run(
    x, weight, bias, eps, residual, gated, next_norm, pdl, tuning: LinearTuning | None = None
) -> torch.Tensor | Stream:
    """Launches the kernel; arguments as in `sfi_lab.runtime.ops.linear`."""
    normed = isinstance(x, Stream)
    source = x.scaled if normed else x
    rows, k = source.shape
    n = weight.shape[0] // 2 if gated else weight.shape[0]
    tuning = tuning or tuning_for(n, k, gated)
    programs = triton.cdiv(n, tuning.block_n)
    out = torch.empty((rows, n), dtype=source.dtype, device=source.device)
    stream = None if next_norm is None else _stream(out, next_norm, programs)
    on_device = not interpreting()
    extra = {"launch_pdl": True} if pdl and on_device else {}
    linear_kernel[(programs,)](
        source, weight, out if bias is None else bias, x.squares if normed else out, out if residual is None else residual,
        out if stream is None else next_norm, out, out if stream is None else stream.scaled,
        out if stream is None else stream.squares, rows, n, k, source.stride(0),
        0 if residual is None else residual.stride(0), len(x.squares) if normed else 0, eps,
        BLOCK_M=max(16, triton.next_power_of_2(rows)), BLOCK_N=tuning.block_n, BLOCK_K=tuning.block_k, PARTS=tuning.warps,
        BLOCK_P=128, HAS_BIAS=bias is not None, HAS_NORM=normed, HAS_RESIDUAL=residual is not None,
        HAS_NEXT=stream is not None, GATED=gated, UPCAST=not on_device, PDL=bool(extra), num_warps=tuning.warps,
        num_stages=tuning.stages, **extra,
    )  # fmt: skip
    return out if stream is None else stream


def run_embed(tokens: torch.Tensor, table: torch.Tensor, next_norm: torch.Tensor) -> Stream:
    """Launches the kernel; arguments as in `sfi_lab.runtime.ops.embed`."""
    rows, k, block = len(tokens), table.shape[1], 64
    out = torch.empty((rows, k), dtype=table.dtype, device=table.device)
    stream = _stream(out, next_norm, triton.cdiv(k, block))
    embed_kernel[(triton.cdiv(k, block),)](
        tokens, table, next_norm, out, stream.scaled, stream.squares, rows, k,
        BLOCK_M=triton.next_power_of_2(rows), BLOCK_N=block, num_warps=4,
    )  # fmt: skip
    return stream


def _stream(hidden: torch.Tensor, norm: torch.Tensor, programs: int) -> Stream:
    squares = torch.empty((programs, hidden.shape[0]), dtype=torch.float32, device=hidden.device)
    return Stream(hidden, norm, torch.empty_like(hidden), squares)
