"""The selector's score on the device: two or three launches, each one pass over its input.

    lse       per row and chunk: running max and sum of the logits       (skipped when the dense kernel gave the LSE)
    evidence  f and r before normalisation; per chunk Σf, Σr, Σf², Σfr, Σr²
    adjust    λ from those sums, z, window maximum, softmax over the heads -> z_adj
"""

import torch
import triton
import triton.language as tl

from ..rounding import load_granularity, round_up

EPS = tl.constexpr(1e-8)


@triton.jit
def lse_kernel(
    LOGITS, N, ACTIVE, PART, stride_b, stride_h, stride_r, chunks,
    H: tl.constexpr, R: tl.constexpr, BLOCK_J: tl.constexpr, ROUND: tl.constexpr,
    HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """m = max_j x(j), l = Σ_j exp(x(j) - m) over one chunk of one row; grid (chunks, B * H * R)."""
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
def log_prior(norm, j, n, gamma_w, beta, power, eta, position_weight):
    """log r up to a constant: -γ w log(‖k‖ + ε) + w_pos (-β u^p + η log(1 - u + ε)), u = j / (n - 1)."""
    last = tl.maximum(n - 1, 1).to(tl.float32)
    u = j.to(tl.float32) / last
    newness = (last - j.to(tl.float32)) / last
    decay = -beta * tl.exp2(power * tl.log2(u)) + eta * tl.log(newness + EPS)
    return -gamma_w * tl.log(norm + EPS) + position_weight * decay


@triton.jit
def evidence_kernel(
    LOGITS, NORMS, N, ACTIVE, PART, LSE, F, SUMS,
    stride_b, stride_h, stride_r, stride_nb, stride_nh, stride_fb, stride_fh, chunks, lse_chunks,
    alpha, gamma_w, beta, power, eta, position_weight,
    H: tl.constexpr, R: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_J: tl.constexpr, LSE_J: tl.constexpr,
    BLOCK_C: tl.constexpr, ROUND: tl.constexpr, HAS_LSE: tl.constexpr, HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """f(j) = (1/R Σ_r exp(α (x_r(j) - lse_r)))^(1/α) and the five sums of one chunk; grid (chunks, B * H)."""
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
        mu += tl.sum(tl.exp(alpha * (x - lse[:, None])), 0)
    f = tl.where(inside, tl.exp2(tl.log2(mu / R) / alpha), 0.0)
    norm = tl.load(NORMS + b.to(tl.int64) * stride_nb + (head % H).to(tl.int64) * stride_nh + j, mask=readable, other=1.0)
    r_un = tl.exp(log_prior(norm.to(tl.float32), j, n, gamma_w, beta, power, eta, position_weight))
    r_un = tl.where(inside, r_un, 0.0)
    tl.store(F + b.to(tl.int64) * stride_fb + (head % H).to(tl.int64) * stride_fh + j, f, mask=readable)
    sums = SUMS + head * chunks + c
    plane = tl.num_programs(1) * chunks
    tl.store(sums, tl.sum(f, 0))
    tl.store(sums + plane, tl.sum(r_un, 0))
    tl.store(sums + 2 * plane, tl.sum(f * f, 0))
    tl.store(sums + 3 * plane, tl.sum(f * r_un, 0))
    tl.store(sums + 4 * plane, tl.sum(r_un * r_un, 0))


@triton.jit
def shifted(x, column, by, WIDTH: tl.constexpr):
    """x[:, column + by], clamped at the edges (the clamped columns are never used)."""
    index = tl.minimum(tl.maximum(column + by, 0), WIDTH - 1)
    return tl.gather(x, tl.broadcast_to(index[None, :], x.shape), 1)


@triton.jit
def window_max(z, column, RADIUS: tl.constexpr, LEVELS: tl.constexpr, WIDTH: tl.constexpr):
    """max over columns -RADIUS .. RADIUS by doubling: 2^LEVELS columns from one's own on, then two such windows."""
    m = z
    for level in tl.static_range(0, LEVELS):
        m = tl.maximum(m, shifted(m, column, 2**level, WIDTH))
    return tl.maximum(shifted(m, column, -RADIUS, WIDTH), shifted(m, column, RADIUS + 1 - 2**LEVELS, WIDTH))


@triton.jit
def total(SUMS, plane, h_rows, chunks, k, used):
    """Sum over chunks of one plane of SUMS for every head -> [BLOCK_H]."""
    return tl.sum(tl.load(SUMS + plane + h_rows[:, None] * chunks + k[None, :], mask=used, other=0.0), 1)


@triton.jit
def adjust_kernel(
    F, NORMS, N, ACTIVE, SUMS, OUT, LAM_OUT,
    stride_fb, stride_fh, stride_nb, stride_nh, stride_ob, stride_oh, chunks,
    gamma_w, beta, power, eta, position_weight, lam_fixed, lam_clip, nms_strength, exclusivity, inverse_temperature,
    H: tl.constexpr, BLOCK_H: tl.constexpr, WIDTH: tl.constexpr, HALO: tl.constexpr, RADIUS: tl.constexpr,
    LEVELS: tl.constexpr, BLOCK_C: tl.constexpr, CHUNK_J: tl.constexpr, ROUND: tl.constexpr, LAM_AUTO: tl.constexpr, HAS_NMS: tl.constexpr,
    HAS_CROSS: tl.constexpr, HAS_LAM_OUT: tl.constexpr, HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """z_adj of WIDTH - 2 HALO candidates of all heads of one sequence; grid (blocks, B)."""
    c = tl.program_id(0)
    b = tl.program_id(1)
    n = tl.load(N + b)
    if c * (WIDTH - 2 * HALO) >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    h = tl.arange(0, BLOCK_H)
    k = tl.arange(0, BLOCK_C)
    used = (h < H)[:, None] & (k * CHUNK_J < n)[None, :]
    rows = b * H + h
    plane = tl.num_programs(1) * H * chunks
    sf = tl.where(h < H, total(SUMS, 0, rows, chunks, k, used), 1.0)
    sr = tl.where(h < H, total(SUMS, plane, rows, chunks, k, used), 1.0)
    if LAM_AUTO:
        ff = total(SUMS, 2 * plane, rows, chunks, k, used) / (sf * sf)
        fr = total(SUMS, 3 * plane, rows, chunks, k, used) / (sf * sr)
        rr = total(SUMS, 4 * plane, rows, chunks, k, used) / (sr * sr)
        denominator = ff - 2.0 * fr + rr
        lam = tl.where(denominator > 0.0, (ff - fr) / tl.maximum(denominator, 1e-30), 0.0)
        lam = tl.minimum(tl.maximum(lam, 0.0), lam_clip)
    else:
        lam = tl.zeros([BLOCK_H], tl.float32) + lam_fixed
    if HAS_LAM_OUT:
        if c == 0:
            tl.store(LAM_OUT + rows, lam, mask=h < H)

    column = tl.arange(0, WIDTH)
    j = c * (WIDTH - 2 * HALO) - HALO + column
    inside = (j >= 0) & (j < n)
    mask = (h < H)[:, None] & inside[None, :]
    readable = (h < H)[:, None] & ((j >= 0) & (j < round_up(n, ROUND)))[None, :]
    b64 = b.to(tl.int64)
    h64 = h.to(tl.int64)[:, None]
    f = tl.load(F + b64 * stride_fb + h64 * stride_fh + j[None, :], mask=readable, other=0.0)
    norm = tl.load(NORMS + b64 * stride_nb + h64 * stride_nh + j[None, :], mask=readable, other=1.0).to(tl.float32)
    r = tl.exp(log_prior(norm, tl.maximum(j, 0)[None, :], n, gamma_w, beta, power, eta, position_weight))
    s = ((1.0 - lam) / sf)[:, None] * f + (lam / sr)[:, None] * r
    z = tl.where(mask, tl.log(s + EPS), float("-inf"))
    if HAS_NMS:
        m = window_max(z, column, RADIUS, LEVELS, WIDTH)
        z = tl.where(mask, z - nms_strength * tl.maximum(m - z, 0.0), float("-inf"))
    if HAS_CROSS:
        x = z * inverse_temperature
        top = tl.max(x, 0)
        top = tl.where(top == float("-inf"), 0.0, top)
        e = tl.exp(x - top[None, :])
        share = e / tl.maximum(tl.sum(e, 0), 1e-30)[None, :]
        z += exclusivity * tl.log(tl.maximum(share, EPS))
    centre = (column >= HALO) & (column < WIDTH - HALO)
    tl.store(OUT + b64 * stride_ob + h64 * stride_oh + j[None, :], z, mask=mask & centre[None, :])


def run(
    logits, key_norms, n_candidates, *, alpha, gamma, beta, power, eta, norm_weight, position_weight, lam, lam_clip,
    nms_radius, nms_strength, exclusivity, temperature, lse, active, out, lam_out,
) -> None:  # fmt: skip
    """Write z_adj of the active sequences into out [B, H_kv, J]; entries past a sequence's J are left as they are."""
    batch, heads, rows, width = logits.shape
    lse_j, block_j = 4096, 2048
    lse_chunks, chunks = triton.cdiv(width, lse_j), triton.cdiv(width, block_j)
    f32 = {"dtype": torch.float32, "device": logits.device}
    f = torch.empty((batch, heads, width), **f32)
    sums = torch.empty((5, batch * heads, chunks), **f32)
    part = sums if lse is not None else torch.empty((2, batch * heads * rows, lse_chunks), **f32)
    flags = n_candidates if active is None else active
    shared = {"H": heads, "ROUND": load_granularity(logits, key_norms, out), "HAS_ACTIVE": active is not None}
    if lse is None:
        lse_kernel[(lse_chunks, batch * heads * rows)](
            logits, n_candidates, flags, part, *logits.stride()[:3], lse_chunks, R=rows, BLOCK_J=lse_j, num_warps=4, **shared
        )
    prior = (gamma * norm_weight, beta, power, eta, position_weight)
    evidence_kernel[(chunks, batch * heads)](
        logits, key_norms, n_candidates, flags, part, part if lse is None else lse, f, sums,
        *logits.stride()[:3], *key_norms.stride()[:2], *f.stride()[:2], chunks, lse_chunks, alpha, *prior,
        R=rows, BLOCK_R=min(4, triton.next_power_of_2(rows)), BLOCK_J=block_j, LSE_J=lse_j,
        BLOCK_C=triton.next_power_of_2(lse_chunks), HAS_LSE=lse is not None, num_warps=8, **shared,
    )  # fmt: skip
    has_nms = nms_radius > 0 and nms_strength != 0
    halo = 16 * triton.cdiv(nms_radius, 16) if has_nms else 0
    block_h = triton.next_power_of_2(heads)
    span = max(4096 // block_h, triton.next_power_of_2(max(4 * halo, 64)))
    adjust_kernel[(triton.cdiv(width, span - 2 * halo), batch)](
        f, key_norms, n_candidates, flags, sums, out, sums if lam_out is None else lam_out,
        *f.stride()[:2], *key_norms.stride()[:2], *out.stride()[:2], chunks, *prior,
        0.0 if lam == "auto" else float(lam), float(lam_clip), nms_strength, exclusivity, 1.0 / temperature,
        BLOCK_H=block_h, WIDTH=span, HALO=halo, RADIUS=nms_radius if has_nms else 0,
        LEVELS=(2 * nms_radius + 1).bit_length() - 1, BLOCK_C=triton.next_power_of_2(chunks), CHUNK_J=block_j, LAM_AUTO=lam == "auto", HAS_NMS=has_nms,
        HAS_CROSS=exclusivity != 0, HAS_LAM_OUT=lam_out is not None, num_warps=8, **shared,
    )  # fmt: skip
