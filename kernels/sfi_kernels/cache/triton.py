"""Cache write on the device: one launch for K, V and the key norms of all sequences."""

import triton
import triton.language as tl


@triton.jit
def write_kernel(
    K, V, K_PAGES, V_PAGES, TABLES, POSITIONS, NORMS,
    stride_kb, stride_kt, stride_kh, stride_vb, stride_vt, stride_vh, stride_table, stride_nb, stride_nh, tokens,
    H: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
    HAS_NORMS: tl.constexpr,
):  # fmt: skip
    """pages[table[p // PAGE], :, p % PAGE] = k, v and norms[:, p] = sqrt(Σ_d k_d²), p = positions[b] + t; grid (B * T,)."""
    b = tl.program_id(0) // tokens
    t = tl.program_id(0) % tokens
    start = tl.load(POSITIONS + b)
    if start < 0:
        return
    p = start + t
    h = tl.arange(0, BLOCK_H)
    d = tl.arange(0, BLOCK_D)
    mask = (h < H)[:, None] & (d < D)[None, :]
    b64 = b.to(tl.int64)
    k = tl.load(K + b64 * stride_kb + t * stride_kt + h[:, None] * stride_kh + d[None, :], mask=mask, other=0.0)
    v = tl.load(V + b64 * stride_vb + t * stride_vt + h[:, None] * stride_vh + d[None, :], mask=mask, other=0.0)
    page = tl.load(TABLES + b64 * stride_table + p // PAGE).to(tl.int64)
    at = ((page * H + h) * PAGE + p % PAGE)[:, None] * D + d[None, :]
    stored = k.to(K_PAGES.dtype.element_ty)
    tl.store(K_PAGES + at, stored, mask=mask)
    tl.store(V_PAGES + at, v.to(V_PAGES.dtype.element_ty), mask=mask)
    if HAS_NORMS:
        wide = stored.to(tl.float32)
        norm = tl.sqrt(tl.sum(wide * wide, 1))
        tl.store(NORMS + b64 * stride_nb + h.to(tl.int64) * stride_nh + p, norm.to(NORMS.dtype.element_ty), mask=h < H)


def run(k, v, k_pages, v_pages, block_tables, positions, *, key_norms) -> None:
    """pages[position of token t] = k[t], v[t]; key_norms[h, position] = ‖k‖ of the row as it was stored."""
    batch, tokens, heads, dim = k.shape
    has_norms = key_norms is not None
    write_kernel[(batch * tokens,)](
        k, v, k_pages, v_pages, block_tables, positions, key_norms if has_norms else k,
        *k.stride()[:3], *v.stride()[:3], block_tables.stride(0), *(key_norms.stride()[:2] if has_norms else (0, 0)), tokens,
        H=heads, D=dim, PAGE=k_pages.shape[2], BLOCK_H=triton.next_power_of_2(heads),
        BLOCK_D=triton.next_power_of_2(dim), HAS_NORMS=has_norms, num_warps=4,
    )  # fmt: skip
