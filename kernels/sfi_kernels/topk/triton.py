"""Top-K on the device by radix selection: four counting passes of 8 bits find the K-th largest key, one pass writes.

    key(x) = bits(x) ^ (x < 0 ? 0xffffffff : 0x80000000)      unsigned order of key = order of x

Pass p counts, chunk by chunk, the p-th byte of the keys whose higher bytes equal those of the K-th largest. Every
program of the next pass adds the chunks up and reads off the next byte itself, so no pass waits on another program
and nothing has to be zeroed. The last pass knows how many keys above and how many equal ones lie in earlier chunks:
positions come out ascending, and of equal scores the lower positions are taken.
"""

import torch
import triton
import triton.language as tl

from ..rounding import load_granularity, round_up

CHUNK = 4096


@triton.jit
def key_of(x):
    """Unsigned integer whose order is the order of x; -0 and +0 share one."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    u = bits.to(tl.uint32, bitcast=True)
    return tl.where(bits < 0, u ^ 0xFFFFFFFF, u ^ 0x80000000)


@triton.jit
def next_byte(HIST, row, chunks, used, wanted, BLOCK_C: tl.constexpr):
    """(byte of the wanted-th largest key, how many are left to take among its equals) from one pass's counts."""
    bins = tl.arange(0, 256)
    count = tl.zeros([256], tl.int32)
    for start in range(0, used, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        at = HIST + (row * chunks + c)[:, None] * 256 + bins[None, :]
        count += tl.sum(tl.load(at, mask=(c < used)[:, None], other=0), 0)
    from_here = tl.cumsum(count, 0, reverse=True)
    byte = tl.sum((from_here >= wanted).to(tl.int32), 0) - 1
    return byte, wanted - tl.sum(tl.where(bins > byte, count, 0), 0)


@triton.jit
def count_kernel(
    SCORES, N, ACTIVE, HIST_IN, HIST, STATE, ABOVE, stride_b, stride_h, k, chunks,
    H: tl.constexpr, PASS: tl.constexpr, SIZE: tl.constexpr, BLOCK_C: tl.constexpr, ROUND: tl.constexpr,
    HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """Counts of byte PASS among the keys that match the higher bytes found so far; grid (chunks, B * H)."""
    c = tl.program_id(0)
    row = tl.program_id(1)
    b = row // H
    n = tl.load(N + b)
    if c * SIZE >= n:
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    i = c * SIZE + tl.arange(0, SIZE)
    inside = i < n
    at = SCORES + b.to(tl.int64) * stride_b + (row % H).to(tl.int64) * stride_h + i
    x = tl.load(at, mask=i < round_up(n, ROUND), other=0.0)
    key = key_of(x)
    match = inside
    if PASS > 0:
        prefix = 0
        wanted = tl.minimum(k, n)
        if PASS > 1:
            prefix = tl.load(STATE + (row * 4 + PASS - 1) * 2)
            wanted = tl.load(STATE + (row * 4 + PASS - 1) * 2 + 1)
        byte, wanted = next_byte(HIST_IN, row, chunks, (n + SIZE - 1) // SIZE, wanted, BLOCK_C)
        prefix = prefix * 256 + byte
        if c == 0:
            tl.store(STATE + (row * 4 + PASS) * 2, prefix)
            tl.store(STATE + (row * 4 + PASS) * 2 + 1, wanted)
        high = (key >> (32 - 8 * PASS)).to(tl.int32)
        match = inside & (high == prefix)
        if PASS == 3:
            tl.store(ABOVE + row * chunks + c, tl.sum((inside & (high > prefix)).to(tl.int32), 0))
    byte_here = ((key >> (24 - 8 * PASS)) & 255).to(tl.int32)
    counts = tl.histogram(byte_here, 256, mask=match)
    tl.store(HIST + (row * chunks + c) * 256 + tl.arange(0, 256), counts)


@triton.jit
def write_kernel(
    SCORES, N, ACTIVE, HIST, STATE, ABOVE, OUT, stride_b, stride_h, k, chunks, first,
    H: tl.constexpr, SIZE: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr, ROUND: tl.constexpr,
    HAS_ACTIVE: tl.constexpr,
):  # fmt: skip
    """Write the positions of one chunk's selected keys at their final places; grid (chunks, B * H)."""
    c = tl.program_id(0)
    row = tl.program_id(1)
    b = row // H
    n = tl.load(N + b)
    if (c * SIZE >= n) & (c > 0):
        return
    if HAS_ACTIVE:
        if tl.load(ACTIVE + b) == 0:
            return
    if c == 0:  # -1 behind the min(K, J) positions
        for start in range(tl.minimum(k, n), k, BLOCK_K):
            pad = start + tl.arange(0, BLOCK_K)
            tl.store(OUT + row.to(tl.int64) * k + pad, tl.full([BLOCK_K], -1, tl.int32), mask=pad < k)
    if n == 0:
        return
    used = (n + SIZE - 1) // SIZE
    prefix = tl.load(STATE + (row * 4 + 3) * 2)
    byte, equals = next_byte(HIST, row, chunks, used, tl.load(STATE + (row * 4 + 3) * 2 + 1), BLOCK_C)
    bins = tl.arange(0, 256)
    above = 0
    same = 0
    for start in range(0, c, BLOCK_C):
        e = start + tl.arange(0, BLOCK_C)
        counts = tl.load(HIST + (row * chunks + e)[:, None] * 256 + bins[None, :], mask=(e < c)[:, None], other=0)
        above += tl.sum(tl.sum(tl.where(bins[None, :] > byte, counts, 0), 1), 0)
        above += tl.sum(tl.load(ABOVE + row * chunks + e, mask=e < c, other=0), 0)
        same += tl.sum(tl.load(HIST + (row * chunks + e) * 256 + byte, mask=e < c, other=0), 0)

    i = c * SIZE + tl.arange(0, SIZE)
    inside = i < n
    at = SCORES + b.to(tl.int64) * stride_b + (row % H).to(tl.int64) * stride_h + i
    x = tl.load(at, mask=i < round_up(n, ROUND), other=0.0)
    key = key_of(x)
    high = (key >> 8).to(tl.int32)
    low = (key & 255).to(tl.int32)
    greater = inside & ((high > prefix) | ((high == prefix) & (low > byte)))
    equal = inside & (high == prefix) & (low == byte)
    both = greater.to(tl.int32) + equal.to(tl.int32) * 65536  # one scan counts the two; SIZE < 65536
    before = tl.cumsum(both, 0) - both
    equal_before = same + (before >> 16)
    chosen = greater | (equal & (equal_before < equals))
    place = above + (before & 65535) + tl.minimum(equal_before, equals)
    tl.store(OUT + row.to(tl.int64) * k + place, i + first, mask=chosen)


def run(scores, n_candidates, k, *, first, active, out) -> None:
    """Positions (candidate index + first) of the min(K, J) best of each row into out [B, H_kv, K]; -1 behind them."""
    batch, heads, width = scores.shape
    rows, chunks = batch * heads, triton.cdiv(width, CHUNK)
    i32 = {"dtype": torch.int32, "device": scores.device}
    hist = torch.empty((2, rows, chunks, 256), **i32)
    state = torch.empty((rows, 4, 2), **i32)
    above = torch.empty((rows, chunks), **i32)
    flags = n_candidates if active is None else active
    common = {
        "H": heads, "SIZE": CHUNK, "BLOCK_C": min(16, triton.next_power_of_2(chunks)),
        "ROUND": load_granularity(scores), "HAS_ACTIVE": active is not None, "num_warps": 8,
    }  # fmt: skip
    for p in range(4):
        count_kernel[(chunks, rows)](
            scores, n_candidates, flags, hist[1 - p % 2], hist[p % 2], state, above, *scores.stride()[:2], k, chunks,
            PASS=p, **common,
        )  # fmt: skip
    write_kernel[(chunks, rows)](
        scores, n_candidates, flags, hist[1], state, above, out, *scores.stride()[:2], k, chunks, first,
        BLOCK_K=1024, **common,
    )  # fmt: skip
