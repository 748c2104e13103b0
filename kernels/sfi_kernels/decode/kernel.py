"""The attention kernel of both decode operations.

    s(j)   = scale * q . k_j                         (or cap * tanh(s / cap))
    out    = sum_j exp(s(j) - m) v_j / sum_j exp(s(j) - m)

over the keys that a slot of the plan names: tiles of the packed buffer, then tiles of the pages. Each slot keeps
(m, sum, weighted values) in registers; the slot of a sequence and head that finishes last merges them all, so there is
no second launch. Every tile is masked where it is loaded: whatever lies beyond a length, NaN included, is never read.
"""

import triton
import triton.language as tl


@triton.jit
def soft_cap(s, cap):
    """cap * tanh(s / cap), written with one exponential that can't overflow to NaN."""
    return cap * (1.0 - 2.0 / (tl.exp(2.0 * s / cap) + 1.0))


@triton.jit
def running_max(m, s):
    """The new row maximum, and the same with -inf replaced by 0 so that exp(-inf - m) is 0 and never NaN."""
    new = tl.maximum(m, tl.max(s, 1))
    return new, tl.where(new == float("-inf"), 0.0, new)


@triton.jit
def attend(q, k, v, valid, m, l, acc, scale, cap,
           HAS_CAP: tl.constexpr, UPCAST: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """One tile of online softmax. q [BG, BD], k and v [BN, BD], valid [BN] -> (s [BG, BN], m, l, acc)."""
    if UPCAST:  # the CPU interpreter multiplies float32 only; on a GPU the operands stay in their dtype
        s = tl.dot(q.to(tl.float32), tl.trans(k.to(tl.float32)), input_precision=PRECISION)
    else:
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    s *= scale
    if HAS_CAP:
        s = soft_cap(s, cap)
    s = tl.where(valid[None, :], s, float("-inf"))
    m_new, m_safe = running_max(m, s)
    keep = tl.exp(m - m_safe)
    p = tl.exp(s - m_safe[:, None])
    l = l * keep + tl.sum(p, 1)
    acc *= keep[:, None]
    if UPCAST:
        acc += tl.dot(p.to(v.dtype).to(tl.float32), v.to(tl.float32), input_precision=PRECISION)
    else:
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
    return s, m_new, l, acc


@triton.jit
def load_tile(
    K_PAGES, V_PAGES, PACKED_K, PACKED_V, packed_row, packed, paged, table, page, t, h, position, valid, n, d,
    H: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr, HAS_PACKED: tl.constexpr,
):  # fmt: skip
    """K and V of tile t of packed memory (`packed`, scalar) or of the pages (`paged`, its opposite, [BN]); [BN, BD] each.

    Rows that are not valid give zeros. One load serves both sources, so prefetching runs on across their border.
    """
    mask = valid[:, None] & (d < D)[None, :]
    if PAGE >= BLOCK_N:  # one table entry (`page`), one contiguous block
        at = ((page.to(tl.int64) * H + h) * PAGE + (t % (PAGE // BLOCK_N)) * BLOCK_N) * D
        k_at = K_PAGES + at
        v_at = V_PAGES + at
        if HAS_PACKED:
            at = (packed_row + t * BLOCK_N) * D
            k_at = tl.multiple_of(tl.where(packed, PACKED_K + at, k_at), 16)
            v_at = tl.multiple_of(tl.where(packed, PACKED_V + at, v_at), 16)
        tile = n[:, None] * D + d[None, :]
    else:
        pages = tl.load(table + position // PAGE, mask=valid & paged, other=0).to(tl.int64)
        rows = (pages * H + h) * PAGE + position % PAGE
        k_at = (K_PAGES + rows * D)[:, None]
        v_at = (V_PAGES + rows * D)[:, None]
        if HAS_PACKED:
            rows = packed_row + position
            k_at = tl.where(packed, (PACKED_K + rows * D)[:, None], k_at)
            v_at = tl.where(packed, (PACKED_V + rows * D)[:, None], v_at)
        tile = d[None, :]
    return tl.load(k_at + tile, mask=mask, other=0.0), tl.load(v_at + tile, mask=mask, other=0.0)


@triton.jit
def page_of(table, t, there, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Table entry of tile t, fetched an iteration ahead: loaded where it is used it would stop K and V being prefetched."""
    if PAGE >= BLOCK_N:
        return tl.load(table + t // (PAGE // BLOCK_N), mask=there, other=0)
    else:
        return 0


@triton.jit
def edge_tile(e, left, page_begin, main_end):
    """The e-th tile outside the main range: `left` tiles from page_begin on, then those from main_end on."""
    return tl.where(e < left, page_begin + e, main_end + e - left)


@triton.jit
def merge_slots(
    PART_OUT, PART_ML, OUT, SCORE_LSE, h, out_row, first, splits,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, MERGE_G: tl.constexpr, BLOCK_D: tl.constexpr,
    MERGE_S: tl.constexpr, HAS_LSE: tl.constexpr,
):  # fmt: skip
    """out = sum_s e^(m_s - m) acc_s / sum_s e^(m_s - m) l_s over the slots of one sequence and head, in slot order."""
    g = tl.arange(0, MERGE_G)
    d = tl.arange(0, BLOCK_D)
    m = tl.full([MERGE_G], float("-inf"), tl.float32)
    l = tl.zeros([MERGE_G], tl.float32)
    acc = tl.zeros([MERGE_G, BLOCK_D], tl.float32)
    mj = tl.full([MERGE_G], float("-inf"), tl.float32)
    lj = tl.zeros([MERGE_G], tl.float32)
    for start in range(0, splits, MERGE_S):
        s = start + tl.arange(0, MERGE_S)
        row = (first + s) * H + h
        there = (s < splits)[:, None] & (g < G)[None, :]
        ml = PART_ML + row[:, None] * (4 * G) + g[None, :]
        ms = tl.load(ml, mask=there, other=float("-inf"), cache_modifier=".cg")
        ls = tl.load(ml + G, mask=there, other=0.0, cache_modifier=".cg")
        part = PART_OUT + row[:, None, None] * (G * D) + g[None, :, None] * D + d[None, None, :]
        values = tl.load(part, mask=there[:, :, None] & (d < D)[None, None, :], other=0.0, cache_modifier=".cg")
        m_new = tl.maximum(m, tl.max(ms, 0))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        keep = tl.exp(m - safe)
        w = tl.exp(ms - safe[None, :])
        l = l * keep + tl.sum(w * ls, 0)
        acc = acc * keep[:, None] + tl.sum(w[:, :, None] * values, 0)
        m = m_new
        if HAS_LSE:
            mjs = tl.load(ml + 2 * G, mask=there, other=float("-inf"), cache_modifier=".cg")
            ljs = tl.load(ml + 3 * G, mask=there, other=0.0, cache_modifier=".cg")
            mj_new = tl.maximum(mj, tl.max(mjs, 0))
            mj_safe = tl.where(mj_new == float("-inf"), 0.0, mj_new)
            lj = lj * tl.exp(mj - mj_safe) + tl.sum(ljs * tl.exp(mjs - mj_safe[None, :]), 0)
            mj = mj_new
    out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
    where = OUT + out_row * D + g[:, None] * D + d[None, :]
    tl.store(where, out.to(OUT.dtype.element_ty), mask=(g < G)[:, None] & (d < D)[None, :])
    if HAS_LSE:
        tl.store(SCORE_LSE + out_row + g, mj + tl.log(lj), mask=g < G)


@triton.jit
def decode_kernel(
    Q, K_PAGES, V_PAGES, TABLES, LENGTHS, ITEMS, PACKED_K, PACKED_V, COUNTS, RECENT_START,
    OUT, PART_OUT, PART_ML, COUNTERS, SCORES, SCORE_LSE,
    scale, cap, sink, stride_qb, stride_qh, stride_qg, stride_table, stride_sb, stride_sh, stride_sg, packed_rows,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr, MERGE_G: tl.constexpr, MERGE_S: tl.constexpr,
    HAS_PACKED: tl.constexpr, HAS_SCORES: tl.constexpr, HAS_LSE: tl.constexpr, HAS_CAP: tl.constexpr,
    UPCAST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out = softmax(scale q k^T) v over a slot's tiles; grid (H_kv, slots)."""
    h = tl.program_id(0)
    slot = tl.program_id(1)
    row = ITEMS + slot * 8
    b = tl.load(row)
    if b < 0:
        return
    page_begin = tl.load(row + 3)
    page_end = tl.load(row + 4)
    first = tl.load(row + 5)
    splits = tl.load(row + 6)
    low = tl.load(row + 7)
    length = tl.load(LENGTHS + b)

    g = tl.arange(0, BLOCK_G)
    d = tl.arange(0, BLOCK_D)
    n = tl.arange(0, BLOCK_N)
    in_g = (g < G)[:, None]
    in_d = (d < D)[None, :]
    b64 = b.to(tl.int64)
    q = tl.load(Q + b64 * stride_qb + h * stride_qh + g[:, None] * stride_qg + d[None, :], mask=in_g & in_d, other=0.0)
    m = tl.full([BLOCK_G], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_G], tl.float32)
    acc = tl.zeros([BLOCK_G, BLOCK_D], tl.float32)
    mj = tl.full([BLOCK_G], float("-inf"), tl.float32)
    lj = tl.zeros([BLOCK_G], tl.float32)
    packed_begin = 0
    packs = 0
    count = 0
    if HAS_PACKED:
        packed_begin = tl.load(row + 1)
        packs = tl.load(row + 2) - packed_begin
        count = tl.load(COUNTS + b * H + h)
    packed_row = (b64 * H + h) * packed_rows

    table = TABLES + b64 * stride_table
    main_begin = page_begin
    main_end = page_end
    if HAS_SCORES:  # the main range holds tiles of candidates only, so its m and l are the candidates' as well
        score_end = tl.load(RECENT_START + b)
        score_row = SCORES + b64 * stride_sb + h * stride_sh + g[:, None] * stride_sg - sink
        main_begin = tl.minimum(tl.maximum(page_begin, (sink + BLOCK_N - 1) // BLOCK_N), page_end)
        main_end = tl.maximum(tl.minimum(page_end, score_end // BLOCK_N), main_begin)
    page = page_of(table, main_begin, main_begin < main_end, PAGE, BLOCK_N)
    for u in range(main_begin - packs, main_end):  # the packed tiles come first
        packed = u < main_begin
        paged = u + 0 * n >= main_begin
        t = tl.where(packed, u - main_begin + packs + packed_begin, u)
        position = t * BLOCK_N + n
        valid = (position < tl.where(packed, count, length)) & (position >= tl.where(packed, 0, low))
        following = page_of(table, u + 1, (u >= main_begin) & (u + 1 < main_end), PAGE, BLOCK_N)
        k, v = load_tile(
            K_PAGES, V_PAGES, PACKED_K, PACKED_V, packed_row, packed, paged, table, page, t, h, position, valid, n, d,
            H, D, PAGE, BLOCK_N, HAS_PACKED,
        )  # fmt: skip
        page = tl.where(packed, page, following)
        s, m, l, acc = attend(q, k, v, valid, m, l, acc, scale, cap, HAS_CAP, UPCAST, PRECISION)
        if HAS_SCORES:
            tl.store(score_row + position[None, :], s.to(SCORES.dtype.element_ty), mask=in_g & paged[None, :])
    if HAS_SCORES:
        some = main_begin < main_end
        mj = tl.where(some, m, float("-inf"))
        lj = tl.where(some, l, 0.0)
        left = main_begin - page_begin
        edges = left + page_end - main_end
        page = page_of(table, edge_tile(0, left, page_begin, main_end), edges > 0, PAGE, BLOCK_N)
        for e in range(0, edges):
            t = edge_tile(e, left, page_begin, main_end)
            position = t * BLOCK_N + n
            valid = (position < length) & (position >= low)
            following = page_of(table, edge_tile(e + 1, left, page_begin, main_end), e + 1 < edges, PAGE, BLOCK_N)
            k, v = load_tile(
                K_PAGES, V_PAGES, PACKED_K, PACKED_V, packed_row, False, valid, table, page, t, h, position, valid, n, d,
                H, D, PAGE, BLOCK_N, False,
            )  # fmt: skip
            page = following
            s, m, l, acc = attend(q, k, v, valid, m, l, acc, scale, cap, HAS_CAP, UPCAST, PRECISION)
            candidate = valid & (position >= sink) & (position < score_end)
            tl.store(score_row + position[None, :], s.to(SCORES.dtype.element_ty), mask=in_g & candidate[None, :])
            sj = tl.where(candidate[None, :], s, float("-inf"))
            mj_new, mj_safe = running_max(mj, sj)
            lj = lj * tl.exp(mj - mj_safe) + tl.sum(tl.exp(sj - mj_safe[:, None]), 1)
            mj = mj_new

    out_row = (b64 * H + h) * G
    if splits == 1:
        out = acc / tl.where(l == 0.0, 1.0, l)[:, None]
        tl.store(OUT + out_row * D + g[:, None] * D + d[None, :], out.to(OUT.dtype.element_ty), mask=in_g & in_d)
        if HAS_LSE:
            tl.store(SCORE_LSE + out_row + g, mj + tl.log(lj), mask=g < G)
    else:
        part = slot * H + h
        tl.store(PART_OUT + part * (G * D) + g[:, None] * D + d[None, :], acc, mask=in_g & in_d)
        tl.store(PART_ML + part * (4 * G) + g, m, mask=g < G)
        tl.store(PART_ML + part * (4 * G) + G + g, l, mask=g < G)
        if HAS_LSE:
            tl.store(PART_ML + part * (4 * G) + 2 * G + g, mj, mask=g < G)
            tl.store(PART_ML + part * (4 * G) + 3 * G + g, lj, mask=g < G)
        tl.debug_barrier()  # every warp's stores come before the release below
        finished = tl.atomic_add(COUNTERS + b * H + h, 1, sem="acq_rel")
        if finished == splits - 1:
            merge_slots(
                PART_OUT, PART_ML, OUT, SCORE_LSE, h, out_row, first, splits,
                H, G, D, MERGE_G, BLOCK_D, MERGE_S, HAS_LSE,
            )  # fmt: skip
            tl.store(COUNTERS + b * H + h, 0)  # ready for the next launch
