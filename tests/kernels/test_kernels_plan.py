"""plan_step: every tile exactly once, pieces balanced, device and reference agree."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, assert_equal, ints

# lengths, routes (None: all dense), packed_len, recent_start, slots, min_tiles
CASES = [
    ([1], None, None, None, 1, 1),
    ([1000, 64, 65, 0], None, None, None, 11, 1),
    ([131072, 5000, 5000], [1, 0, 0], [0, 2052, 2052], [0, 4744, 4800], 33, 4),
    ([300, 300], [0, 0], [64, 0], [299, 300], 7, 1),
    ([70, 9000, 12, 640, 1], [0, 1, 0, 1, 0], [4, 7, 4, 7, 1], [60, 3, 4, 3, 1], 5, 2),
]


def filled(case, backend):
    lengths, routes, packed, starts, slots, min_tiles = case
    extra = {} if routes is None else {"route": ints(routes), "packed_len": ints(packed), "recent_start": ints(starts)}
    return sfi_kernels.plan_step(
        ints(lengths), heads=2, group=1, dim=64, slots=slots, min_tiles=min_tiles, backend=backend, **extra
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n{c[0]}-slots{c[4]}")
def test_plan_matches_reference(case):
    got, expected = filled(case, "triton").items.cpu(), filled(case, "reference").items.cpu()
    used = expected[:, 0] >= 0
    assert_equal(got[:, 0], expected[:, 0], "sequence of each slot")
    assert_equal(got[used], expected[used], "rows in use")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n{c[0]}-slots{c[4]}")
def test_plan_covers_every_tile_once(case):
    lengths, routes, packed, starts, slots, _ = case
    plan = filled(case, "triton")
    rows = [r for r in plan.items.tolist() if r[0] >= 0]
    assert plan.slots == max(slots, len(lengths))
    longest = 0
    for b, n in enumerate(lengths):
        fast = routes is not None and routes[b] == 0
        low = starts[b] if fast else 0
        mine = [r for r in rows if r[0] == b]
        assert len({r[5] for r in mine}) == 1, f"sequence {b}: one first slot"
        assert rows.index(mine[0]) == mine[0][5], f"sequence {b}: first slot"
        assert all(r[6] == len(mine) and r[7] == low for r in mine), f"sequence {b}: splits and low in every row"
        pages = [t for r in mine for t in range(r[3], r[4])]
        assert pages == list(range(low // 64, -(-n // 64)) if n > low else []), f"sequence {b}: page tiles"
        packs = [t for r in mine for t in range(r[1], r[2])]
        assert packs == list(range(-(-packed[b] // 64) if fast else 0)), f"sequence {b}: packed tiles"
        longest = max(longest, *(r[2] - r[1] + r[4] - r[3] for r in mine))
    work = sum(r[2] - r[1] + r[4] - r[3] for r in rows)
    if plan.slots > len(lengths):
        assert longest <= max(case[5], 2 * -(-work // (plan.slots - len(lengths)))), "pieces are balanced"


def test_plan_is_refilled_in_place_and_checks_its_shape():
    plan = sfi_kernels.plan_step(ints([100]), heads=2, group=1, dim=64, slots=4, min_tiles=1)
    again = sfi_kernels.plan_step(ints([300]), heads=2, group=1, dim=64, plan=plan, min_tiles=1)
    assert again is plan
    assert int((plan.items[:, 0] == 0).sum()) == 3, f"5 tiles in at most 4 even pieces: 2 + 2 + 1, got {plan.items}"
    with pytest.raises(ValueError, match=r"plan was made for .* = \(1, 2, 1, 64\), got \(1, 2, 4, 64\)"):
        sfi_kernels.plan_step(ints([300]), heads=2, group=4, dim=64, plan=plan)
    with pytest.raises(ValueError, match="needs packed_len and recent_start"):
        sfi_kernels.plan_step(
            ints([300]), heads=2, group=1, dim=64, route=torch.zeros(1, dtype=torch.int32, device=DEVICE)
        )
