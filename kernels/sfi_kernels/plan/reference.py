"""The plan's work list in plain torch (formula in `layout.py`)."""

import torch

from .layout import DecodePlan


def tiles_of(lengths, packed_len, recent_start, route, block_n: int):
    """(packed tiles, first page tile, page tiles, low) of each sequence, int32 [B] each."""
    fast = torch.zeros_like(lengths, dtype=torch.bool) if route is None else route == 0
    zero = torch.zeros_like(lengths)
    packed = zero if packed_len is None else torch.where(fast, packed_len, zero)
    low = zero if recent_start is None else torch.where(fast, recent_start, zero)
    page_begin = low // block_n
    page_end = (lengths + block_n - 1) // block_n
    pages = torch.where(lengths > low, page_end - page_begin, zero)
    return (packed + block_n - 1) // block_n, page_begin, pages, low


def fill(plan: DecodePlan, lengths, packed_len, recent_start, route, min_tiles: int) -> None:
    """Write the work list of this step into `plan.items`."""
    packed, page_begin, pages, low = (
        x.tolist() for x in tiles_of(lengths, packed_len, recent_start, route, plan.block_n)
    )
    tiles = [a + b for a, b in zip(packed, pages, strict=True)]
    pieces = lambda c: sum(max(1, -(-t // c)) for t in tiles)  # noqa: E731
    chunk = max(1, min_tiles)
    high = max(chunk, *tiles)
    while chunk < high:
        middle = (chunk + high) // 2
        chunk, high = (chunk, middle) if pieces(middle) <= plan.slots else (middle + 1, high)

    rows = []
    for b, total in enumerate(tiles):
        splits = max(1, -(-total // chunk))
        even = max(1, -(-total // splits))
        splits = max(1, -(-total // even))
        first = len(rows)
        for s in range(splits):
            begin, end = s * even, min((s + 1) * even, total)
            packed_range = (min(begin, packed[b]), min(end, packed[b]))
            page_range = tuple(page_begin[b] + max(x - packed[b], 0) for x in (begin, end))
            rows.append((b, *packed_range, *page_range, first, splits, low[b]))
    rows += [(-1,) * 8] * (plan.slots - len(rows))
    plan.items.copy_(torch.tensor(rows, dtype=torch.int32))
