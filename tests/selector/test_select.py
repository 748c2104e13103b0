"""The selector against a literal float64 reference, and the claims the paper makes about its pieces."""

import math

import pytest
import torch

from selector_reference import reference
from sfi_lab import Settings, SfiError
from sfi_lab.selector import STAGES, choose, evidence_of, prior_of, select
from sfi_lab.selector import equations as eq

SHAPES = [(1, 1, 1), (1, 1, 37), (2, 1, 5), (3, 7, 33), (2, 48, 3), (5, 3, 131), (1, 4, 2)]  # H_kv, R, J
CASES = {
    "paper": Settings.paper(k=5),
    "released": Settings.released(k=4),
    "sharp": Settings(
        k=7,
        alpha=0.9,
        gamma=2.0,
        beta=3.0,
        power=0.7,
        eta=2.0,
        norm_weight=0.3,
        position_weight=1.7,
        lam=0.4,
        nms_radius=2,
        nms_strength=1.5,
        exclusivity=1.2,
        temperature=0.3,
    ),
    "plain": Settings(k=3, alpha=1, lam=0.0, nms_strength=0, exclusivity=0, nms_radius=0),
    "free lambda": Settings(k=6, alpha=0.25, lam_clip=1.0, nms_radius=200),
}


def inputs(heads, rows, n, seed=0, spread=3.0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(heads, rows, n, generator=generator, dtype=torch.float64) * spread
    norms = torch.rand(heads, n, generator=generator, dtype=torch.float64) * 5 + 0.05
    return logits, norms


def worst(got, want):
    index = torch.unravel_index((got - want).abs().argmax(), want.shape)
    return f"largest error {(got - want).abs().max():.2e} at {[int(i) for i in index]}: {got[index]} for {want[index]}"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_stage_is_the_papers(name, shape):
    settings = CASES[name]
    logits, norms = inputs(*shape)
    want = reference(logits.tolist(), norms.tolist(), settings)
    got = select(logits, norms, settings)
    for stage in ("evidence", "prior", "lam", "fused", "log_score", "suppressed", "exclusive"):
        mine, theirs = getattr(got, stage), torch.tensor(want[stage], dtype=torch.float64)
        assert mine.dtype == torch.float32, stage
        tolerance = 1e-6 if stage in ("evidence", "prior", "fused") else 2e-4
        assert (mine.double() - theirs).abs().max() < tolerance, f"{stage}: {worst(mine.double(), theirs)}"
    assert got.ranked.shape == got.indices.shape == (shape[0], min(settings.k, shape[2]))
    assert got.indices.dtype == torch.int64
    # the reference may rank two near-equal scores the other way round: compare what float32 can tell apart
    scores = torch.tensor(want["exclusive"])
    picked = scores.gather(1, got.ranked)
    best = scores.gather(1, torch.tensor(want["ranked"]))
    assert (picked - best).abs().max() < 1e-4, f"ranked {got.ranked.tolist()}, reference {want['ranked']}"
    assert bool((got.indices.diff(dim=-1) > 0).all()), "indices must ascend"
    assert torch.equal(got.ranked.sort(-1).values, got.indices)


def test_evidence_and_prior_sum_to_one_and_half_precision_is_taken():
    logits, norms = inputs(3, 4, 50)
    got = select(logits.bfloat16(), norms.bfloat16(), Settings(k=4))
    for stage in (got.evidence, got.prior, got.fused):
        assert stage.dtype == torch.float32
        torch.testing.assert_close(stage.sum(-1), torch.ones(3))


def test_evidence_ignores_what_sink_and_recent_take():
    """Adding a constant to a row is what a larger or smaller denominator outside J does."""
    logits, norms = inputs(2, 3, 20)
    shifted = logits + torch.randn(2, 3, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64) * 9
    a, b = (select(x, norms, Settings(k=5)) for x in (logits, shifted))
    torch.testing.assert_close(a.evidence, b.evidence)


def test_rows_that_may_not_look_everywhere():
    logits, norms = inputs(2, 3, 12)
    logits[:, 0, 5:] = -math.inf
    want = reference(logits.clamp_min(-1e5).tolist(), norms.tolist(), Settings(k=3))
    got = select(logits, norms, Settings(k=3))
    assert (got.evidence.double() - torch.tensor(want["evidence"])).abs().max() < 1e-6


# claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_closed_form_minimises_the_squared_norm(seed):
    logits, norms = inputs(3, 2, 40, seed, spread=2.0)
    f, r = evidence_of(logits, Settings()), prior_of(norms, Settings())
    lam = eq.balance(f, r, 1.0)
    grid = torch.linspace(0, 1, 2001)
    norms_of = torch.stack([eq.fuse(f, r, torch.full((3,), float(x))).square().sum(-1) for x in grid])
    best = grid[norms_of.argmin(0)]
    assert (lam - best).abs().max() <= 1e-3, f"closed form {lam.tolist()}, grid {best.tolist()}"
    for clip in (0.02, 0.35):
        assert torch.equal(eq.balance(f, r, clip), lam.clamp(0, clip))


def test_lambda_of_equal_distributions_is_no_nan():
    f = torch.full((2, 5), 0.2)
    assert eq.balance(f, f.clone(), 0.5).tolist() == [0.0, 0.0]


def test_the_fused_score_minimises_the_weighted_divergences():
    logits, norms = inputs(1, 2, 12)
    f, r = (x[0].double() / x[0].double().sum() for x in (evidence_of(logits, Settings()), prior_of(norms, Settings())))
    for lam in (0.1, 0.5, 0.8):

        def cost(s, lam=lam):
            kl = lambda p: (p * (p / s).log()).sum()  # noqa: E731
            return (1 - lam) * kl(f) + lam * kl(r)

        fused = eq.fuse(f[None], r[None], torch.tensor([lam], dtype=torch.float64))[0]
        free = torch.zeros(12, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([free], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

        def closure(free=free, optimiser=optimiser, cost=cost):
            optimiser.zero_grad()
            value = cost(free.softmax(0))
            value.backward()
            return value

        optimiser.step(closure)
        assert (free.softmax(0).detach() - fused).abs().max() < 1e-5, f"λ {lam}"
        assert cost(fused) <= cost(free.softmax(0).detach()) + 1e-10


@pytest.mark.parametrize(("n", "radius"), [(1, 16), (2, 1), (9, 2), (9, 8), (9, 9), (9, 100), (40, 16)])
def test_suppression_looks_inside_its_radius_only(n, radius):
    for peak in {0, n // 2, n - 1}:
        z = torch.full((1, n), -3.0)
        z[0, peak] = 0.0
        held = eq.soft_nms(z, radius, 0.5)[0]
        for j in range(n):
            want = 0.0 if j == peak else -4.5 if abs(j - peak) <= radius else -3.0
            assert float(held[j]) == want, f"peak {peak}, position {j}: {float(held[j])} for {want}"


def test_suppression_never_lifts_and_spares_the_neighbourhoods_maximum():
    z = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    held = eq.soft_nms(z, 3, 0.7)
    assert bool((held <= z).all())
    maximum = torch.nn.functional.max_pool1d(z[:, None], 7, 1, 3)[:, 0] == z
    assert torch.equal(held[maximum], z[maximum])


def test_exclusivity_leaves_a_candidate_to_the_head_that_wants_it_most():
    z = torch.tensor([[0.0, -1.0], [-4.0, -1.0]])
    adjusted = eq.exclusive(z, 0.85, 2.0)
    assert adjusted[0, 0] - adjusted[1, 0] > z[0, 0] - z[1, 0]
    # at equal wish each head pays log 2
    torch.testing.assert_close(adjusted[:, 1], torch.full((2,), -1.0 + 0.85 * math.log(0.5)))
    # one head alone pays nothing, and the punishment has a floor
    torch.testing.assert_close(eq.exclusive(z[:1], 0.85, 2.0), z[:1])
    floor = eq.exclusive(torch.tensor([[0.0], [-1e4]]), 1.0, 1.0)
    assert float(floor[1]) == pytest.approx(-1e4 + math.log(1e-8), abs=1e-2)


def test_equal_scores_go_to_the_lower_position():
    z = torch.tensor([[1.0, 5.0, 1.0, 1.0, 5.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0, 9.0]])
    assert eq.top_k(z, 3).tolist() == [[1, 4, 0], [5, 0, 1]]
    assert eq.top_k(torch.zeros(1, 1000), 7).tolist() == [list(range(7))]
    assert eq.top_k(torch.zeros(2, 4), 99).tolist() == [[0, 1, 2, 3]] * 2


def test_flat_evidence_selects_the_oldest_when_nothing_else_speaks():
    settings = Settings(k=4, lam=0.0, nms_strength=0, exclusivity=0)
    assert select(torch.zeros(2, 3, 30), torch.ones(2, 30), settings).indices.tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("k", [1, 11, 12, 13, 1 << 30])
def test_k_beyond_the_candidates_takes_all(k):
    logits, norms = inputs(2, 3, 12)
    got = select(logits, norms, Settings(k=k))
    assert got.indices.shape == (2, min(k, 12))
    if k >= 12:
        assert got.indices.tolist() == [list(range(12))] * 2


def test_a_smaller_k_is_a_prefix_of_the_ranking():
    logits, norms = inputs(3, 4, 60)
    large = select(logits, norms, Settings(k=40)).ranked
    for k in (1, 7, 39):
        assert torch.equal(select(logits, norms, Settings(k=k)).ranked, large[:, :k])


# λ's modes --------------------------------------------------------------------------------------------------------


def test_lambda_modes():
    many, norms = inputs(2, 6, 30)
    one = many[:, :1]
    assert select(many, norms, Settings(lam=0.3)).lam.tolist() == pytest.approx([0.3, 0.3])
    assert select(many, norms, Settings(lam=0.3, lam_clip=0.01)).lam.tolist() == pytest.approx([0.3, 0.3]), (
        "a fixed λ isn't clipped"
    )
    pair = Settings(lam_clip=(0.35, 0.25))
    assert select(one, norms, pair).lam.tolist() == pytest.approx([0.35, 0.35])
    assert select(many, norms, pair).lam.tolist() == pytest.approx([0.25, 0.25])


def test_lambda_zero_is_evidence_alone_and_one_is_the_prior_alone():
    logits, norms = inputs(2, 3, 25)
    assert torch.equal(select(logits, norms, Settings(lam=0)).fused, evidence_of(logits, Settings()))
    torch.testing.assert_close(select(logits, norms, Settings(lam=1)).fused, prior_of(norms, Settings()))


def test_priors_hold_back_large_keys_and_new_candidates():
    flat = prior_of(torch.tensor([[1.0, 4.0, 1.0]]), Settings(position_weight=0))[0]
    assert flat.tolist() == pytest.approx([0.4, 0.2, 0.4])
    aged = prior_of(torch.ones(1, 50), Settings())[0]
    assert bool((aged.diff() < 0).all()), "older candidates must have the larger prior"
    assert float(aged[-1]) < 0.05 * float(aged[0])


# use --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "norms"),
    [((2, 3, 0), (2, 0)), ((2, 5), (2, 5)), ((2, 3, 5), (2, 4)), ((2, 3, 5), (3, 5)), ((2, 3, 5), (2, 3, 5))],
)
def test_shapes_that_do_not_fit_are_named(logits, norms):
    with pytest.raises(SfiError, match=r"logits \[H_kv, R, J\] and key_norms \[H_kv, J\]") as error:
        select(torch.zeros(logits), torch.ones(norms), Settings())
    assert str(tuple(logits)) in str(error.value)


def test_stages_are_lapped_in_order():
    logits, norms = inputs(2, 3, 9)
    laps = []
    select(logits, norms, Settings(k=2), laps.append)
    assert tuple(laps) == STAGES


def test_choose_from_kept_evidence_is_select():
    logits, norms = inputs(2, 3, 40)
    for settings in CASES.values():
        whole = select(logits, norms, settings)
        again = choose(evidence_of(logits, settings), prior_of(norms, settings), 3, settings)
        assert torch.equal(whole.ranked, again.ranked)
        assert torch.equal(whole.exclusive, again.exclusive)


def test_inputs_are_left_alone():
    logits, norms = inputs(2, 3, 9)
    before = logits.clone(), norms.clone()
    select(logits.float(), norms.float(), Settings(k=2))
    x, y = logits.float(), norms.float()
    select(x, y, Settings(k=2))
    assert torch.equal(x, before[0].float())
    assert torch.equal(y, before[1].float())
