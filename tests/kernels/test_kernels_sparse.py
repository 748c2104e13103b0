"""sparse_decode against its float64 reference: packed memory, recent window in place, mixed routes."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, POISON, TOLERANCE, assert_close, double, ints, paged_cache, poisoned

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16

# lengths, routes, counts (a row a sequence, one entry repeated over heads unless a list), recent starts,
# H_kv, G, D, page_size, dtype, slots, block_n
CASES = [
    ([300, 300], [0, 0], [40, 40], [250, 237], 2, 4, 64, 64, F32, 4, 64),
    ([700, 90, 200], [0, 1, 0], [100, 0, 17], [650, 60, 129], 1, 2, 128, 64, BF16, 9, 64),
    ([9, 1, 30], [0, 0, 0], [4, 1, 4], [4, 1, 4], 2, 3, 64, 16, F32, 5, 64),  # shorter than sink + recent
    ([200, 333], [1, 0], [0, [65, 1, 33]], [180, 331], 3, 1, 80, 16, F16, 7, 32),  # counts differ by head
    ([128, 0], [0, 1], [64, 0], [64, 0], 1, 8, 96, 64, BF16, 3, 64),  # tile-aligned borders, an empty sequence
    ([150], [0], [30], [150], 1, 7, 256, 16, F32, 2, 32),  # empty recent window
    ([200, 150], [0, 0], [0, 20], [100, 140], 1, 4, 64, 16, F32, 6, 16),  # a tile a page, several pages a piece
    ([1023], [1], [0], [900], 1, 4, 64, 64, F32, 6, 64),  # a dense route alone
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n{c[0]}-route{c[1]}-G{c[5]}-D{c[6]}-p{c[7]}-{c[8]}")
def test_sparse_matches_reference(case):
    lengths_list, routes, counts_list, starts, heads, group, dim, page_size, dtype, slots, block_n = case
    batch, scale, sink, rows = len(lengths_list), dim**-0.5, 4, 110
    cache = paged_cache(lengths_list, heads, dim, page_size, dtype)
    q = torch.randn(batch, heads, group, dim).to(DEVICE, dtype)
    counts = ints([c if isinstance(c, list) else [c] * heads for c in counts_list])
    packed_k, packed_v = (torch.randn(batch, heads, rows, dim).to(DEVICE, dtype) for _ in range(2))
    for b in range(batch):
        for h in range(heads):
            packed_k[b, h, counts[b, h] :] = float("nan")
            packed_v[b, h, counts[b, h] :] = float("nan")
    lengths, start, route = ints(lengths_list), ints(starts), ints(routes)
    width = max(lengths_list)

    cpu = [x.cpu() for x in (counts, start, route)]
    k, v, tables = double(*cache)
    scores = torch.full((batch, heads, group, width), POISON, dtype=torch.float64)
    lse = torch.empty(batch, heads, group, dtype=torch.float64)
    expected = sfi_kernels.sparse_decode(
        *double(q), k, v, tables, lengths.cpu(), *double(packed_k, packed_v), *cpu, scale, scores=scores, score_lse=lse,
        sink=sink, backend="reference",
    )  # fmt: skip

    # planned for more packed rows than some heads hold: the plan is an upper bound
    packed_len = (counts.amax(1) + 70) * (route == 0)
    plan = sfi_kernels.plan_step(
        lengths, heads=heads, group=group, dim=dim, slots=slots, block_n=block_n, min_tiles=1,
        packed_len=packed_len.int(), recent_start=start, route=route,
    )  # fmt: skip
    got_scores, got_lse = poisoned(batch, heads, group, width), poisoned(batch, heads, group)
    asked = {"scores": got_scores, "score_lse": got_lse, "sink": sink}
    for given, extra in ((None, {}), (plan, {}), (plan, asked)):
        got = sfi_kernels.sparse_decode(
            q, *cache, lengths, packed_k, packed_v, counts, start, route, scale, plan=given,
            out=poisoned(*q.shape, dtype=dtype), **extra,
        )  # fmt: skip
        assert_close(
            got, expected, TOLERANCE[dtype], f"out, {'own' if given is None else 'given'} plan, scores: {bool(extra)}"
        )
    assert_close(got_scores, scores, (3e-5, 3e-5), "scores (fast sequences must keep their poison)")
    assert_close(got_lse, lse, (3e-5, 3e-5), "score_lse")
    assert int(plan.counters.abs().sum()) == 0, "counters must be zero between launches"


def test_sparse_of_everything_equals_dense():
    cache = paged_cache([150], 2, 64, 16, F32)
    q, lengths = torch.randn(1, 2, 4, 64, device=DEVICE), ints([150])
    positions = torch.arange(4, 120, dtype=torch.int32, device=DEVICE).expand(1, 2, -1).contiguous()
    packed_k, packed_v = poisoned(1, 2, 120, 64), poisoned(1, 2, 120, 64)
    counts = poisoned(1, 2, dtype=torch.int32)
    sfi_kernels.pack_memory(positions, *cache, lengths, packed_k, packed_v, counts, sink=4)
    dense = sfi_kernels.dense_decode(q, *cache, lengths, 0.2)
    sparse = sfi_kernels.sparse_decode(q, *cache, lengths, packed_k, packed_v, counts, ints([120]), ints([0]), 0.2)
    assert_close(sparse, dense, TOLERANCE[F32], "sink + all candidates selected + recent against dense")
