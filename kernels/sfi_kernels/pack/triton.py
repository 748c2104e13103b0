"""Packing on the device: one launch, one row of K and V a line of the gather."""

import triton
import triton.language as tl


@triton.jit
def pack_kernel(
    POSITIONS, K_PAGES, V_PAGES, TABLES, LENGTHS, ACTIVE, PACKED_K, PACKED_V, COUNTS, sink, stride_table, k, packed_rows,
    H: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
    HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """packed[row] = pages[position of row], position = row for the sinks, then positions[row - sinks]; grid (blocks, B * H)."""
    head = tl.program_id(1)
    b = head // H
    h = head % H
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    sinks = tl.minimum(tl.load(LENGTHS + b), sink)
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    head64 = head.to(tl.int64)
    chosen = POSITIONS + head64 * k - sinks
    at = tl.load(chosen + row, mask=(row >= sinks) & (row < sinks + k), other=-1)
    at = tl.where(row < sinks, row, at)
    following = tl.load(chosen + row + 1, mask=(row + 1 >= sinks) & (row + 1 < sinks + k), other=-1)
    following = tl.where(row + 1 < sinks, row, following)
    there = at >= 0
    tl.store(COUNTS + head + row * 0, row + 1, mask=there & (following < 0))
    tl.store(COUNTS + head + row * 0, row * 0, mask=(row == 0) & (at < 0))
    page = tl.load(TABLES + b.to(tl.int64) * stride_table + at // PAGE, mask=there, other=0).to(tl.int64)
    d = tl.arange(0, BLOCK_D)
    source = ((page * H + h) * PAGE + at % PAGE)[:, None] * D + d[None, :]
    target = (head64 * packed_rows + row)[:, None] * D + d[None, :]
    mask = there[:, None] & (d < D)[None, :]
    key = tl.load(K_PAGES + source, mask=mask)
    value = tl.load(V_PAGES + source, mask=mask)
    tl.store(PACKED_K + target, key, mask=mask)
    tl.store(PACKED_V + target, value, mask=mask)


def run(positions, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, *, sink, active) -> None:
    """packed[h] = K/V of positions 0 .. min(sink, length) - 1, then of positions[h]; counts[h] = rows written."""
    batch, heads, k = positions.shape
    dim = k_pages.shape[3]
    block_d = triton.next_power_of_2(dim)
    block_r = max(8, 8192 // block_d)
    pack_kernel[(triton.cdiv(sink + k, block_r), batch * heads)](
        positions, k_pages, v_pages, block_tables, lengths, lengths if active is None else active,
        packed_k, packed_v, counts, sink, block_tables.stride(0), k, packed_k.shape[2],
        H=heads, D=dim, PAGE=k_pages.shape[2], BLOCK_R=block_r, BLOCK_D=block_d, HAS_ACTIVE=active is not None,
        num_warps=4,
    )  # fmt: skip
