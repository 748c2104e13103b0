"""dense_decode against its float64 reference."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, POISON, TOLERANCE, assert_close, double, ints, paged_cache, poisoned

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16

# lengths, H_kv, G, D, page_size, dtype, slots, block_n, softcap
CASES = [
    ([1, 15], 2, 1, 64, 16, F32, 4, 64, None),
    ([17, 1023, 0], 2, 4, 64, 64, F32, 9, 64, None),
    ([130], 1, 7, 80, 16, F16, 2, 64, None),
    ([65, 200], 2, 3, 96, 64, BF16, 6, 64, None),
    ([257], 1, 8, 128, 64, BF16, 3, 64, 20.0),
    ([40, 300], 1, 2, 256, 16, F32, 8, 32, None),
    ([70, 33, 64], 1, 20, 64, 32, BF16, 3, 16, None),
    ([500], 1, 4, 128, 64, F32, 40, 16, 5.0),
]


def expected_dense(q, cache, lengths, scale, softcap, sink, recent_start, width):
    k, v, tables = double(*cache)
    scores = torch.full((*q.shape[:3], width), POISON, dtype=torch.float64)
    lse = torch.empty(q.shape[:3], dtype=torch.float64)
    out = sfi_kernels.dense_decode(
        *double(q), k, v, tables, lengths.cpu(), scale, softcap=softcap, scores=scores, score_lse=lse, sink=sink,
        recent_start=recent_start.cpu(), backend="reference",
    )  # fmt: skip
    return out, scores, lse


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n{c[0]}-H{c[1]}-G{c[2]}-D{c[3]}-p{c[4]}-{c[5]}")
def test_dense_matches_reference_with_and_without_scores(case):
    lengths_list, heads, group, dim, page_size, dtype, slots, block_n, softcap = case
    batch, scale, sink, recent = len(lengths_list), dim**-0.5, 4, 40
    cache = paged_cache(lengths_list, heads, dim, page_size, dtype)
    q = torch.randn(batch, heads, group, dim).to(DEVICE, dtype)
    lengths = ints(lengths_list)
    recent_start = (lengths - recent).clamp_min(sink)
    width = max(lengths_list)
    out, scores, lse = expected_dense(q, cache, lengths, scale, softcap, sink, recent_start, width)

    plan = sfi_kernels.plan_step(lengths, heads=heads, group=group, dim=dim, slots=slots, block_n=block_n, min_tiles=1)
    plain = sfi_kernels.dense_decode(
        q, *cache, lengths, scale, softcap=softcap, plan=plan, out=poisoned(*q.shape, dtype=dtype)
    )
    assert_close(plain, out, TOLERANCE[dtype], "out")

    got_scores, got_lse = poisoned(batch, heads, group, width), poisoned(batch, heads, group)
    scored = sfi_kernels.dense_decode(
        q, *cache, lengths, scale, softcap=softcap, plan=plan, out=poisoned(*q.shape, dtype=dtype),
        scores=got_scores, score_lse=got_lse, sink=sink, recent_start=recent_start,
    )  # fmt: skip
    # other registers, another schedule of the same sums: close, not bitwise
    assert_close(scored, out, TOLERANCE[dtype], "out with scores")
    assert_close(got_scores, scores, (3e-5, 3e-5), "scores (entries that are no candidates must keep their poison)")
    assert_close(got_lse, lse, (3e-5, 3e-5), "score_lse")
    assert int(plan.counters.abs().sum()) == 0, "counters must be zero between launches"


def test_dense_takes_flat_heads_and_its_own_plan_and_16_bit_scores():
    cache = paged_cache([90], 2, 64, 16, F32)
    q = torch.randn(1, 6, 64, device=DEVICE)
    lengths, start = ints([90]), ints([80])
    out, scores, _ = expected_dense(q.view(1, 2, 3, 64), cache, lengths, 0.125, None, 4, start, 90)
    got_scores = poisoned(1, 2, 3, 90, dtype=BF16)
    got = sfi_kernels.dense_decode(q, *cache, lengths, 0.125, scores=got_scores, sink=4, recent_start=start)
    assert got.shape == q.shape
    assert_close(got.view(1, 2, 3, 64), out, TOLERANCE[F32], "out")
    assert_close(got_scores[..., :76], scores[..., :76], TOLERANCE[BF16], "bf16 scores")


def test_dense_backend_by_device_and_by_hand():
    x = torch.zeros(1, device=DEVICE)
    assert sfi_kernels.backend_for(x) == "triton"
    assert sfi_kernels.backend_for(x, "reference") == "reference"
    assert sfi_kernels.backend_for(x.double()) == "reference"
    with pytest.raises(ValueError, match="backend is 'cuda'; allowed are triton, reference"):
        sfi_kernels.backend_for(x, "cuda")


@pytest.mark.skipif(DEVICE == "cpu", reason="CUDA graphs need a GPU")
def test_dense_replays_in_a_graph_with_other_lengths():
    cache = paged_cache([700, 130], 2, 128, 64, BF16)
    q = torch.randn(2, 2, 4, 128).to(DEVICE, BF16)
    lengths = ints([700, 130])
    shape = {"heads": 2, "group": 4, "dim": 128}
    plan = sfi_kernels.plan_step(lengths, slots=16, min_tiles=1, **shape)
    out = sfi_kernels.dense_decode(q, *cache, lengths, 0.1, plan=plan)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sfi_kernels.plan_step(lengths, plan=plan, min_tiles=1, **shape)
        sfi_kernels.dense_decode(q, *cache, lengths, 0.1, plan=plan, out=out)
    for now in ([700, 130], [3, 99], [512, 1]):
        lengths.copy_(ints(now))
        out.fill_(POISON)
        graph.replay()
        k, v, tables = double(*cache)
        expected = sfi_kernels.dense_decode(*double(q), k, v, tables, lengths.cpu(), 0.1)
        assert_close(out, expected, TOLERANCE[BF16], f"replay at lengths {now}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(1, 3, 64)}, "q must be .* H_kv = 2 and D = 64, got"),
        ({"lengths": torch.zeros(1, dtype=torch.int64)}, "lengths has dtype torch.int64; allowed: torch.int32"),
        (
            {"k_pages": torch.zeros(2, 2, 24, 64), "v_pages": torch.zeros(2, 2, 24, 64)},
            "page_size is 24; .* powers of two",
        ),
        (
            {"k_pages": torch.zeros(2, 2, 16, 60), "v_pages": torch.zeros(2, 2, 16, 60)},
            "D is 60; allowed are multiples of 8",
        ),
        ({"v_pages": torch.zeros(2, 2, 16, 32)}, "k_pages and v_pages must be"),
        ({"scores": torch.zeros(1, 2, 1, 9)}, "pass recent_start as well"),
        ({"q": torch.zeros(1, 2, 64, dtype=torch.float16)}, "q has dtype torch.float16; allowed: torch.float32"),
    ],
)
def test_dense_names_bad_input(change, message):
    args = {
        "q": torch.zeros(1, 2, 64), "k_pages": torch.zeros(2, 2, 16, 64), "v_pages": torch.zeros(2, 2, 16, 64),
        "block_tables": torch.zeros(1, 2, dtype=torch.int32), "lengths": torch.zeros(1, dtype=torch.int32), "scale": 1.0,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        sfi_kernels.dense_decode(**{**args, **change})
