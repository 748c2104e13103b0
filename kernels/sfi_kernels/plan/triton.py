"""The plan's work list on the device: one small launch a step, no host synchronisation."""

import torch
import triton
import triton.language as tl

from .layout import DecodePlan


@triton.jit
def plan_kernel(
    LENGTHS, PACKED_LEN, RECENT_START, ROUTE, ITEMS,
    batch, slots, min_tiles,
    BLOCK_N: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_S: tl.constexpr, SEARCH_STEPS: tl.constexpr,
    HAS_FAST: tl.constexpr,
):  # fmt: skip
    """smallest c with sum_b max(1, ceil(T_b / c)) <= slots; program b writes the rows of sequence b."""
    me = tl.program_id(0)
    b = tl.arange(0, BLOCK_B)
    there = b < batch
    length = tl.load(LENGTHS + b, mask=there, other=0)
    packed = tl.zeros([BLOCK_B], tl.int32)
    low = tl.zeros([BLOCK_B], tl.int32)
    if HAS_FAST:
        fast = tl.load(ROUTE + b, mask=there, other=1) == 0
        packed = tl.load(PACKED_LEN + b, mask=there & fast, other=0)
        packed = (packed + BLOCK_N - 1) // BLOCK_N
        low = tl.load(RECENT_START + b, mask=there & fast, other=0)
    page_begin = low // BLOCK_N
    pages = tl.where(length > low, (length + BLOCK_N - 1) // BLOCK_N - page_begin, 0)
    tiles = packed + pages

    chunk = tl.maximum(min_tiles, 1)
    high = tl.maximum(tl.max(tiles, 0), chunk)
    for _ in range(SEARCH_STEPS):  # a bisection that has converged stays where it is
        middle = (chunk + high) // 2
        pieces = tl.sum(tl.where(there, tl.maximum((tiles + middle - 1) // middle, 1), 0), 0)
        fits = pieces <= slots
        chunk, high = tl.where(fits | (chunk >= high), chunk, middle + 1), tl.where(fits & (chunk < high), middle, high)

    splits = tl.maximum((tiles + chunk - 1) // chunk, 1)
    even = tl.maximum((tiles + splits - 1) // splits, 1)
    splits = tl.where(there, tl.maximum((tiles + even - 1) // even, 1), 0)
    before = tl.cumsum(splits, 0) - splits

    mine = b == me
    total = tl.sum(tl.where(mine, tiles, 0), 0)
    my_packed = tl.sum(tl.where(mine, packed, 0), 0)
    my_page_begin = tl.sum(tl.where(mine, page_begin, 0), 0)
    my_low = tl.sum(tl.where(mine, low, 0), 0)
    my_splits = tl.sum(tl.where(mine, splits, 0), 0)
    my_even = tl.sum(tl.where(mine, even, 0), 0)
    first = tl.sum(tl.where(mine, before, 0), 0)
    for start in range(0, my_splits, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        write = s < my_splits
        begin = s * my_even
        end = tl.minimum(begin + my_even, total)
        row = ITEMS + (first + s) * 8
        tl.store(row, tl.zeros([BLOCK_S], tl.int32) + me, mask=write)
        tl.store(row + 1, tl.minimum(begin, my_packed), mask=write)
        tl.store(row + 2, tl.minimum(end, my_packed), mask=write)
        tl.store(row + 3, my_page_begin + tl.maximum(begin - my_packed, 0), mask=write)
        tl.store(row + 4, my_page_begin + tl.maximum(end - my_packed, 0), mask=write)
        tl.store(row + 5, tl.zeros([BLOCK_S], tl.int32) + first, mask=write)
        tl.store(row + 6, tl.zeros([BLOCK_S], tl.int32) + my_splits, mask=write)
        tl.store(row + 7, tl.zeros([BLOCK_S], tl.int32) + my_low, mask=write)
    if me == 0:
        used = tl.sum(splits, 0)
        for start in range(used, slots, BLOCK_S):
            idle = start + tl.arange(0, BLOCK_S)
            tl.store(ITEMS + idle * 8, tl.full([BLOCK_S], -1, tl.int32), mask=idle < slots)


def fill(plan: DecodePlan, lengths: torch.Tensor, packed_len, recent_start, route, min_tiles: int) -> None:
    """Write the work list of this step into `plan.items` (columns other than the first of idle rows are left as is)."""
    batch = lengths.shape[0]
    has_fast = route is not None
    plan_kernel[(batch,)](
        lengths, packed_len if has_fast else lengths, recent_start if has_fast else lengths,
        route if has_fast else lengths, plan.items,
        batch, plan.slots, min_tiles,
        BLOCK_N=plan.block_n, BLOCK_B=triton.next_power_of_2(max(batch, 2)), BLOCK_S=32, SEARCH_STEPS=20,
        HAS_FAST=has_fast, num_warps=1,
    )  # fmt: skip
