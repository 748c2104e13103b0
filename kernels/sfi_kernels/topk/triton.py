"""Top-K on the device: narrow by one coarse histogram, compact, then search the exact threshold in registers.

    key(x) = bits(x) ^ (x < 0 ? 0xffffffff : 0x80000000)      unsigned order of key = order of x

    coarse   64 bins over the key range seen in a strided sample of the row, counted chunk by chunk
    compact  candidates in the K-th largest key's bin or above it, in order: few more than K (all, if many are equal)
    finish   one program a row: the K-th largest key, two bits a round within its bin, then the winners in order

The bins only decide how much is left for `finish`; the result is exact whatever the sample looked like, as a bin is a
monotone function of the key. Compaction keeps the order, so positions come out ascending and of equal scores the lower
positions are taken. No program waits on another one and nothing has to be zeroed.
"""

import torch
import triton
import triton.language as tl

from ..launching import after_previous, chain, load_granularity, round_up

CHUNK = 4096
FINISH_REGISTERS = 64  # a thread: without a limit 99, and the kernel can't begin beside a running attention kernel
BINS = tl.constexpr(64)


@triton.jit
def key_of(x):
    """Unsigned integer whose order is the order of x; -0 and +0 share one."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    u = bits.to(tl.uint32, bitcast=True)
    return tl.where(bits < 0, u ^ 0xFFFFFFFF, u ^ 0x80000000)


@triton.jit
def bin_of(key, low, shift):
    """Monotone in key: 0 below low, then steps of 2^shift, at most BINS - 1."""
    above = tl.where(key > low, key - low, 0) >> shift
    return tl.minimum(above, BINS - 1).to(tl.int32)


@triton.jit
def coarse_kernel(
    SCORES, N, ACTIVE, HIST, RANGE, stride_b, stride_h, chunks,
    H: tl.constexpr, SIZE: tl.constexpr, SAMPLE: tl.constexpr, ROUND: tl.constexpr, HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """Counts of one chunk by bin; the range is that of every (n / SAMPLE)-th score; grid (chunks, B * H)."""
    after_previous(CHAIN)
    c = tl.program_id(0)
    row = tl.program_id(1)
    b = row // H
    n = tl.load(N + b)
    if c * SIZE >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    at = SCORES + b.to(tl.int64) * stride_b + (row % H).to(tl.int64) * stride_h
    i = c * SIZE + tl.arange(0, SIZE)
    key = key_of(tl.load(at + i, mask=i < round_up(n, ROUND), other=0.0))
    step = tl.maximum(n // SAMPLE, 1)
    s = tl.arange(0, SAMPLE) * step
    sample = key_of(tl.load(at + tl.where(s < n, s, 0)))
    low = tl.min(sample, 0)
    width = tl.max(sample, 0) - low
    shift = tl.zeros_like(width)
    for bit in tl.static_range(6, 32):  # how far width must be shifted to fit 6 bits
        shift += ((width >> bit) > 0).to(tl.uint32)
    if c == 0:
        tl.store(RANGE + row * 2, low.to(tl.int32, bitcast=True))
        tl.store(RANGE + row * 2 + 1, shift.to(tl.int32, bitcast=True))
    counts = tl.histogram(bin_of(key, low, shift), BINS, mask=i < n)
    tl.store(HIST + (row * chunks + c) * BINS + tl.arange(0, BINS), counts)


@triton.jit
def compact_kernel(
    SCORES, N, ACTIVE, HIST, RANGE, LIST_KEY, LIST_INDEX, META, stride_b, stride_h, k, chunks, width,
    H: tl.constexpr, SIZE: tl.constexpr, BLOCK_C: tl.constexpr, ROUND: tl.constexpr, HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """Keys and indices of one chunk's scores from the threshold's bin upwards, in order; grid (chunks, B * H)."""
    after_previous(CHAIN)
    c = tl.program_id(0)
    row = tl.program_id(1)
    b = row // H
    n = tl.load(N + b)
    if c * SIZE >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    at = SCORES + b.to(tl.int64) * stride_b + (row % H).to(tl.int64) * stride_h
    i = c * SIZE + tl.arange(0, SIZE)
    key = key_of(tl.load(at + i, mask=i < round_up(n, ROUND), other=0.0))
    low = tl.load(RANGE + row * 2).to(tl.uint32, bitcast=True)
    shift = tl.load(RANGE + row * 2 + 1).to(tl.uint32, bitcast=True)

    bins = tl.arange(0, BINS)
    whole = tl.zeros([BINS], tl.int32)
    earlier = tl.zeros([BINS], tl.int32)
    for start in range(0, (n + SIZE - 1) // SIZE, BLOCK_C):
        e = start + tl.arange(0, BLOCK_C)
        there = (e * SIZE < n)[:, None]
        counts = tl.load(HIST + (row * chunks + e)[:, None] * BINS + bins[None, :], mask=there, other=0)
        whole += tl.sum(counts, 0)
        earlier += tl.sum(tl.where((e < c)[:, None], counts, 0), 0)
    from_here = tl.cumsum(whole, 0, reverse=True)
    threshold = tl.sum((from_here >= tl.minimum(k, n)).to(tl.int32), 0) - 1
    before = tl.sum(tl.where(bins >= threshold, earlier, 0), 0)
    if c == 0:  # how long the list is, and where the K-th largest key lies: base .. base + 2^bits - 1
        inner = (threshold > 0) & (threshold < BINS - 1)
        base = low + (threshold.to(tl.uint32) << shift)
        tl.store(META + row * 3, tl.sum(tl.where(bins >= threshold, whole, 0), 0))
        tl.store(META + row * 3 + 1, tl.where(inner, base, 0).to(tl.int32, bitcast=True))
        tl.store(META + row * 3 + 2, tl.where(inner, shift.to(tl.int32), 32))

    keep = (i < n) & (bin_of(key, low, shift) >= threshold)
    kept = keep.to(tl.int32)
    place = row.to(tl.int64) * width + before + tl.cumsum(kept, 0) - kept
    tl.store(LIST_KEY + place, key.to(tl.int32, bitcast=True), mask=keep)
    tl.store(LIST_INDEX + place, i, mask=keep)


@triton.jit
def load_keys(LIST, at, length, base):
    """Listed keys less base (none is below it); entries past the length are masked by the caller."""
    return tl.load(LIST + at, mask=at < length, other=0).to(tl.uint32, bitcast=True) - base


@triton.jit
def counts_from(key, valid, value, step):
    """How many keys reach value + 1, 2, 3 steps: three counts packed into one int64, 21 bits each."""
    first = (valid & (key >= value + step)).to(tl.int64)
    second = (valid & (key >= value + step * 2)).to(tl.int64)
    third = (valid & (key >= value + step * 3)).to(tl.int64)
    return tl.sum(first + (second << 21) + (third << 42), 0)


@triton.jit
def next_digit(packed, wanted):
    """The largest of 0 .. 3 that still leaves `wanted` keys."""
    mask = (1 << 21) - 1
    a = ((packed & mask) >= wanted).to(tl.uint32)
    b = (((packed >> 21) & mask) >= wanted).to(tl.uint32)
    return a + b + ((packed >> 42) >= wanted).to(tl.uint32)


@triton.jit
def emit(OUT, index, key, valid, value, above, same, equals, first):
    """Write the winners of one tile at their places; returns the counts of greater and equal keys so far."""
    greater = (valid & (key > value)).to(tl.int32)
    equal = (valid & (key == value)).to(tl.int32)
    greater_before = above + tl.cumsum(greater, 0) - greater
    equal_before = same + tl.cumsum(equal, 0) - equal
    chosen = (greater > 0) | ((equal > 0) & (equal_before < equals))
    tl.store(OUT + greater_before + tl.minimum(equal_before, equals), index + first, mask=chosen)
    return above + tl.sum(greater, 0), same + tl.sum(equal, 0)


@triton.jit
def finish_kernel(
    N, ACTIVE, LIST_KEY, LIST_INDEX, META, OUT, k, width, first,
    H: tl.constexpr, TILE: tl.constexpr, HAS_ACTIVE: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """v = min(K, n)-th largest of one row's list, then all keys > v and the first equals, in order; grid (B * H,)."""
    after_previous(CHAIN)
    row = tl.program_id(0)
    b = row // H
    n = tl.load(N + b)
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    wanted = tl.minimum(k, n)
    out = OUT + row.to(tl.int64) * k
    i = tl.arange(0, TILE)
    for start in range(wanted, k, TILE):  # -1 behind the positions
        tl.store(out + start + i, tl.full([TILE], -1, tl.int32), mask=start + i < k)
    if n == 0:
        return
    length = tl.load(META + row * 3)
    base = tl.load(META + row * 3 + 1).to(tl.uint32, bitcast=True)
    rounds = (tl.load(META + row * 3 + 2) + 1) // 2
    step = tl.full([], 1, tl.uint32) << ((2 * rounds).to(tl.uint32) - 2)
    value = tl.full([], 0, tl.uint32)
    keys = LIST_KEY + row.to(tl.int64) * width
    indices = LIST_INDEX + row.to(tl.int64) * width
    if length <= TILE:  # the usual case: the list stays in registers
        key = load_keys(keys, i, length, base)
        index = tl.load(indices + i, mask=i < length, other=0)
        for _ in range(0, rounds):
            value += next_digit(counts_from(key, i < length, value, step), wanted) * step
            step = step >> 2
        equals = wanted - tl.sum(((i < length) & (key > value)).to(tl.int32), 0)
        emit(out, index, key, i < length, value, 0, 0, equals, first)
    else:  # many scores share the threshold's bin: the same, tile by tile
        for _ in range(0, rounds):
            packed = tl.full([], 0, tl.int64)
            for start in range(0, length, TILE):
                packed += counts_from(load_keys(keys, start + i, length, base), start + i < length, value, step)
            value += next_digit(packed, wanted) * step
            step = step >> 2
        greater = tl.full([], 0, tl.int32)
        for start in range(0, length, TILE):
            greater += tl.sum(
                ((start + i < length) & (load_keys(keys, start + i, length, base) > value)).to(tl.int32), 0
            )
        above = tl.full([], 0, tl.int32)
        same = tl.full([], 0, tl.int32)
        for start in range(0, length, TILE):
            key = load_keys(keys, start + i, length, base)
            index = tl.load(indices + start + i, mask=start + i < length, other=0)
            above, same = emit(out, index, key, start + i < length, value, above, same, wanted - greater, first)


def run(scores, n_candidates, k, *, first, active, out) -> None:
    """Positions (candidate index + first) of the min(K, J) best of each row into out [B, H_kv, K]; -1 behind them."""
    batch, heads, width = scores.shape
    rows, chunks = batch * heads, triton.cdiv(width, CHUNK)
    i32 = {"dtype": torch.int32, "device": scores.device}
    hist = torch.empty((rows, chunks, BINS.value), **i32)
    key_range, meta = torch.empty((rows, 2), **i32), torch.empty((rows, 3), **i32)
    list_key, list_index = torch.empty((2, rows, width), **i32)
    flags = n_candidates if active is None else active
    common = {"H": heads, "HAS_ACTIVE": active is not None}
    begin, follow = chain(scores.device)
    tile = min(max(2 * triton.next_power_of_2(k), 1024), 16384)
    coarse_kernel[(chunks, rows)](
        scores, n_candidates, flags, hist, key_range, *scores.stride()[:2], chunks,
        SIZE=CHUNK, SAMPLE=1024, ROUND=load_granularity(scores), num_warps=8, **common, **begin,
    )  # fmt: skip
    compact_kernel[(chunks, rows)](
        scores, n_candidates, flags, hist, key_range, list_key, list_index, meta, *scores.stride()[:2], k, chunks, width,
        SIZE=CHUNK, BLOCK_C=min(32, triton.next_power_of_2(chunks)), ROUND=load_granularity(scores), num_warps=8, **common, **follow,
    )  # fmt: skip
    finish_kernel[(rows,)](
        n_candidates, flags, list_key, list_index, meta, out, k, width, first,
        TILE=tile, num_warps=min(max(tile // 256, 4), 32), maxnreg=FINISH_REGISTERS, **common, **follow,
    )  # fmt: skip
