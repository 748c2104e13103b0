"""The selector's score on the device: two or three launches, each one pass over its input.

lse       per row and chunk: running max and sum of the logits       (skipped when the dense kernel gave the LSE)
evidence  f and r before normalisation; per chunk Σf, Σr, Σf², Σfr, Σr²
adjust    λ from those sums, z, window maximum, softmax over the heads -> z_adj
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..dispatch import interpreting
from ..launching import after_previous, chain, load_granularity, round_up

EPS = tl.constexpr(1e-8)
# A tile of adjust, heads x candidates. Small enough that two programs sit beside an attention kernel that holds half of
# a multiprocessor's registers (at 4,096 the compiler takes 120 a thread, and one barely fits).
ADJUST_ELEMENTS, ADJUST_WARPS = 2048, 8

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LOG2_EPS = tl.constexpr(-26.575424759098897)


@triton.jit
def log2(x, FAST: tl.constexpr):
    """Logarithm to base 2; FAST is the hardware's approximation (error near 1e-7), which the interpreter does not have."""
    if FAST:
        return libdevice.fast_log2f(x)
    else:
        return tl.log2(x)


@triton.jit
def lse_kernel(
    LOGITS, N, ACTIVE, PART, stride_b, stride_h, stride_r, chunks,
    H: tl.constexpr, R: tl.constexpr, BLOCK_J: tl.constexpr, ROUND: tl.constexpr,
    HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """m = max_j x(j), l = Σ_j exp(x(j) - m) over one chunk of one row; grid (chunks, B * H * R)."""
    after_previous(CHAIN)
    c = tl.program_id(0)
    row = tl.program_id(1)
    b = row // (H * R)
    n = tl.load(N + b)
    if c * BLOCK_J >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    j = c * BLOCK_J + tl.arange(0, BLOCK_J)
    at = LOGITS + b.to(tl.int64) * stride_b + (row // R % H).to(tl.int64) * stride_h + (row % R).to(tl.int64) * stride_r
    x = tl.load(at + j, mask=j < round_up(n, ROUND), other=float("-inf")).to(tl.float32)
    x = tl.where(j < n, x, float("-inf"))
    m = tl.max(x, 0)
    tl.store(PART + row * chunks + c, m)
    tl.store(PART + (tl.num_programs(1) + row) * chunks + c, tl.sum(tl.exp(x - m), 0))


@triton.jit
def prior(norm, j, n, gamma_w, beta, power, eta, position_weight, FAST: tl.constexpr):
    """r before normalisation: 2^(-γ w log2(‖k‖ + ε) + w_pos (-β u^p log2 e + η log2(1 - u + ε))), u = j / (n - 1)."""
    last = tl.maximum(n - 1, 1)
    step = 1.0 / last.to(tl.float32)
    u = j.to(tl.float32) * step
    newness = (last - j).to(tl.float32) * step
    decay = -beta * LOG2E * tl.exp2(power * log2(u, FAST)) + eta * log2(newness + EPS, FAST)
    return tl.exp2(position_weight * decay - gamma_w * log2(norm + EPS, FAST))


@triton.jit
def evidence_kernel(
    LOGITS, NORMS, N, ACTIVE, PART, LSE, F, RU, SUMS,
    stride_b, stride_h, stride_r, stride_nb, stride_nh, stride_fb, stride_fh, chunks, lse_chunks,
    alpha, gamma_w, beta, power, eta, position_weight,
    H: tl.constexpr, R: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_J: tl.constexpr, LSE_J: tl.constexpr,
    BLOCK_C: tl.constexpr, ROUND: tl.constexpr, FAST: tl.constexpr, HAS_LSE: tl.constexpr, HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """f(j) = (1/R Σ_r exp(α (x_r(j) - lse_r)))^(1/α) and the five sums of one chunk; grid (chunks, B * H)."""
    after_previous(CHAIN)
    c = tl.program_id(0)
    head = tl.program_id(1)
    b = head // H
    n = tl.load(N + b)
    if c * BLOCK_J >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    j = c * BLOCK_J + tl.arange(0, BLOCK_J)
    inside = j < n
    readable = j < round_up(n, ROUND)
    at = LOGITS + b.to(tl.int64) * stride_b + (head % H).to(tl.int64) * stride_h
    base = alpha * LOG2E  # exp(α y) = 2^(base y)
    mu = tl.zeros([BLOCK_J], tl.float32)
    for start in range(0, R, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        if HAS_LSE:
            lse = tl.load(LSE + head * R + r, mask=r < R, other=0.0)
        else:
            k = tl.arange(0, BLOCK_C)
            part = PART + (head * R + r)[:, None] * lse_chunks + k[None, :]
            used = (r < R)[:, None] & (k * LSE_J < n)[None, :]
            m_c = tl.load(part, mask=used, other=float("-inf"))
            l_c = tl.load(part + tl.num_programs(1) * R * lse_chunks, mask=used, other=0.0)
            m = tl.max(m_c, 1)
            m = tl.where(m == float("-inf"), 0.0, m)
            lse = m + tl.log(tl.sum(l_c * tl.exp(m_c - m[:, None]), 1))
            lse = tl.where(r < R, lse, 0.0)
        row = at + r.to(tl.int64)[:, None] * stride_r + j[None, :]
        x = tl.load(row, mask=(r < R)[:, None] & readable[None, :], other=float("-inf")).to(tl.float32)
        mu += tl.sum(tl.exp2(x * base - (lse * base)[:, None]), 0)
    f = tl.where(inside, tl.exp2((log2(mu, FAST) - log2(tl.full([1], R, tl.float32), FAST)) * (1.0 / alpha)), 0.0)
    norm = tl.load(
        NORMS + b.to(tl.int64) * stride_nb + (head % H).to(tl.int64) * stride_nh + j, mask=readable, other=1.0
    )
    r_un = prior(norm.to(tl.float32), j, n, gamma_w, beta, power, eta, position_weight, FAST)
    r_un = tl.where(inside, r_un, 0.0)
    row = b.to(tl.int64) * stride_fb + (head % H).to(tl.int64) * stride_fh
    tl.store(F + row + j, f, mask=readable)
    tl.store(RU + row + j, r_un, mask=readable)
    sums = SUMS + head * chunks + c
    plane = tl.num_programs(1) * chunks
    tl.store(sums, tl.sum(f, 0))
    tl.store(sums + plane, tl.sum(r_un, 0))
    tl.store(sums + 2 * plane, tl.sum(f * f, 0))
    tl.store(sums + 3 * plane, tl.sum(f * r_un, 0))
    tl.store(sums + 4 * plane, tl.sum(r_un * r_un, 0))


@triton.jit
def total(SUMS, plane, rows, chunks, k, used):
    """Sum over chunks of one plane of SUMS for every head -> [BLOCK_H]."""
    return tl.sum(tl.load(SUMS + plane + rows[:, None] * chunks + k[None, :], mask=used, other=0.0), 1)


@triton.jit
def fusion_weights(SUMS, rows, real, plane, chunks, k, used, lam_fixed, lam_clip, LAM_AUTO: tl.constexpr):
    """(λ, factor on f, factor on r) of every head: λ = clip((‖f‖² - f·r) / ‖f - r‖², 0, λ_clip), factors (1-λ)/Σf, λ/Σr."""
    sf = tl.where(real, total(SUMS, 0, rows, chunks, k, used), 1.0)
    sr = tl.where(real, total(SUMS, plane, rows, chunks, k, used), 1.0)
    lam = tl.zeros_like(sf) + lam_fixed
    if LAM_AUTO:
        ff = total(SUMS, 2 * plane, rows, chunks, k, used) / (sf * sf)
        fr = total(SUMS, 3 * plane, rows, chunks, k, used) / (sf * sr)
        rr = total(SUMS, 4 * plane, rows, chunks, k, used) / (sr * sr)
        denominator = ff - 2.0 * fr + rr
        lam = tl.where(denominator > 0.0, (ff - fr) / tl.maximum(denominator, 1e-30), 0.0)
        lam = tl.minimum(tl.maximum(lam, 0.0), lam_clip)
    return lam, (1.0 - lam) / sf, lam / sr


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def fused(F, RU, row, j, mask, n, on_f, on_r, ROUND: tl.constexpr):
    """(1-λ) f + λ r + ε at candidates j; 0 outside 0 .. n - 1. Its log2 is z / ln 2."""
    mask = mask & (j >= 0) & (j < round_up(n, ROUND))
    f = tl.load(F + row + j, mask=mask, other=0.0)
    r = tl.load(RU + row + j, mask=mask, other=0.0)
    return tl.where(mask & (j < n), on_f * f + on_r * r + EPS, 0.0)


@triton.jit
def adjust_kernel(
    F, RU, N, ACTIVE, SUMS, OUT, LAM_OUT, stride_fb, stride_fh, stride_ob, stride_oh, chunks,
    lam_fixed, lam_clip, nms_strength, exclusivity, inverse_temperature,
    H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCKS: tl.constexpr, SPAN: tl.constexpr, RADIUS: tl.constexpr,
    BLOCK_C: tl.constexpr, CHUNK_J: tl.constexpr, ROUND: tl.constexpr, FAST: tl.constexpr, LAM_AUTO: tl.constexpr,
    HAS_NMS: tl.constexpr, HAS_CROSS: tl.constexpr, HAS_LAM_OUT: tl.constexpr, HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """z_nms = z - α_soft max(window max - z, 0), z_adj = z_nms + α_cross log max(softmax_h(z_nms / τ), ε); grid (tiles, B).

    SPAN is the largest power of two <= 2 RADIUS + 1. For the t-th column of a block that starts at s, the window is the
    last SPAN - t columns of the block that starts at s - RADIUS, the first t + 1 of the one at s + RADIUS, and
    2 RADIUS - SPAN columns between them that don't depend on t: one suffix scan, one prefix scan, one plain maximum.
    Logarithms are to base 2 up to the store.
    """
    after_previous(CHAIN)
    c = tl.program_id(0)
    b = tl.program_id(1)
    n = tl.load(N + b)
    if c * (BLOCKS * SPAN) >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    head = tl.arange(0, BLOCK_H)
    rows = b * H + head
    k = tl.arange(0, BLOCK_C)
    used = (head < H)[:, None] & (k * CHUNK_J < n)[None, :]
    plane = tl.num_programs(1) * H * chunks
    lam, on_f, on_r = fusion_weights(SUMS, rows, head < H, plane, chunks, k, used, lam_fixed, lam_clip, LAM_AUTO)
    if HAS_LAM_OUT:
        if c == 0:
            tl.store(LAM_OUT + rows, lam, mask=head < H)
    on_f = on_f[:, None, None]
    on_r = on_r[:, None, None]
    h = head[:, None, None]
    t = tl.arange(0, SPAN)[None, None, :]
    start = (c * BLOCKS + tl.arange(0, BLOCKS)[None, :, None]) * SPAN
    j = start + t
    row = b.to(tl.int64) * stride_fb + h.to(tl.int64) * stride_fh
    z = log2(fused(F, RU, row, j, h < H, n, on_f, on_r, ROUND), FAST)
    if HAS_NMS:  # the logarithm of the largest is the largest logarithm: one is taken, of the window's maximum
        a = fused(F, RU, row, j - RADIUS, h < H, n, on_f, on_r, ROUND)
        e = fused(F, RU, row, j + RADIUS, h < H, n, on_f, on_r, ROUND)
        m = tl.maximum(tl.associative_scan(a, 2, larger, reverse=True), tl.associative_scan(e, 2, larger))
        if 2 * RADIUS > SPAN:
            inner = (h < H) & (t < 2 * RADIUS - SPAN)
            g = fused(F, RU, row, j - RADIUS + SPAN, inner, n, on_f, on_r, ROUND)
            m = tl.maximum(m, tl.max(g, 2)[:, :, None])
        z = tl.where((h < H) & (j < n), z - nms_strength * tl.maximum(log2(m, FAST) - z, 0.0), float("-inf"))
    if HAS_CROSS:  # log ρ = x - log Σ_h e^x: one exponential an element, one logarithm a column
        x = z * inverse_temperature
        top = tl.max(x, 0)
        top = tl.where(top == float("-inf"), 0.0, top)
        whole = top + log2(tl.sum(tl.exp2(x - top[None, :, :]), 0), FAST)
        z += exclusivity * tl.maximum(x - whole[None, :, :], LOG2_EPS)
    out = OUT + b.to(tl.int64) * stride_ob + h.to(tl.int64) * stride_oh
    tl.store(out + j, z * LN2, mask=(h < H) & (j < n))


def run(
    logits, key_norms, n_candidates, *, alpha, gamma, beta, power, eta, norm_weight, position_weight, lam, lam_clip,
    nms_radius, nms_strength, exclusivity, temperature, lse, active, out, lam_out,
) -> None:  # fmt: skip
    """Write z_adj of the active sequences into out [B, H_kv, J]; entries past a sequence's J are left as they are."""
    batch, heads, rows, width = logits.shape
    lse_j, block_j = 4096, 2048
    lse_chunks, chunks = triton.cdiv(width, lse_j), triton.cdiv(width, block_j)
    f32 = {"dtype": torch.float32, "device": logits.device}
    f, r = torch.empty((2, batch, heads, width), **f32)
    sums = torch.empty((5, batch * heads, chunks), **f32)
    part = sums if lse is not None else torch.empty((2, batch * heads * rows, lse_chunks), **f32)
    flags = n_candidates if active is None else active
    shared = {"H": heads, "ROUND": load_granularity(logits, key_norms, out), "HAS_ACTIVE": active is not None}
    begin, follow = chain(logits.device)
    if lse is None:
        lse_kernel[(lse_chunks, batch * heads * rows)](
            logits,
            n_candidates,
            flags,
            part,
            *logits.stride()[:3],
            lse_chunks,
            R=rows,
            BLOCK_J=lse_j,
            num_warps=4,
            **shared,
            **begin,
        )
    evidence_kernel[(chunks, batch * heads)](
        logits, key_norms, n_candidates, flags, part, part if lse is None else lse, f, r, sums,
        *logits.stride()[:3], *key_norms.stride()[:2], *f.stride()[:2], chunks, lse_chunks,
        alpha, gamma * norm_weight, beta, power, eta, position_weight,
        R=rows, BLOCK_R=min(4, triton.next_power_of_2(rows)), BLOCK_J=block_j, LSE_J=lse_j,
        BLOCK_C=triton.next_power_of_2(lse_chunks), HAS_LSE=lse is not None, FAST=not interpreting(), num_warps=8, **shared,
        **(follow if lse is None else begin),
    )  # fmt: skip
    has_nms = nms_radius > 0 and nms_strength != 0
    span = 1 << ((2 * nms_radius + 1).bit_length() - 1) if has_nms else 16
    block_h = triton.next_power_of_2(heads)
    blocks = max(1, min(ADJUST_ELEMENTS // block_h, triton.next_power_of_2(width)) // span)
    adjust_kernel[(triton.cdiv(width, blocks * span), batch)](
        f, r, n_candidates, flags, sums, out, sums if lam_out is None else lam_out,
        *f.stride()[:2], *out.stride()[:2], chunks,
        0.0 if lam == "auto" else float(lam), float(lam_clip), nms_strength, exclusivity, 1.0 / temperature,
        BLOCK_H=block_h, BLOCKS=blocks, SPAN=span, RADIUS=nms_radius if has_nms else 0,
        BLOCK_C=triton.next_power_of_2(chunks), CHUNK_J=block_j, LAM_AUTO=lam == "auto", HAS_NMS=has_nms,
        HAS_CROSS=exclusivity != 0, FAST=not interpreting(), HAS_LAM_OUT=lam_out is not None, num_warps=ADJUST_WARPS, **shared, **follow,
    )  # fmt: skip
