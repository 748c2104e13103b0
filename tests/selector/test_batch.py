"""Many refreshes ranked together: exactly what `choose` ranks one by one, whatever their lengths, ties and settings."""

import math

import numpy as np
import pytest
import torch

from sfi_lab import Settings
from sfi_lab.selector import batch, choose, evidence_of, prior_of, rank_many
from sfi_lab.selector.equations import balance, window_max

LENGTHS = {
    "one": [1], "equal": [9, 9, 9], "odd": [1, 37, 2, 131, 16, 17], "growing": list(range(40, 61)), "long and short": [700, 3, 512, 33],
}  # fmt: skip
CASES = {
    "paper": Settings.paper(k=5),
    "released": Settings.released(k=16),
    "more than there is": Settings.paper(k=40),
    "wide window": Settings.paper(k=7, nms_radius=64, nms_strength=1.7),
    "no suppression": Settings.paper(k=7, nms_strength=0),
    "no exclusivity": Settings.paper(k=7, exclusivity=0),
    "plain": Settings.paper(k=3, lam=0.0, nms_radius=0, exclusivity=0),
    "prior alone": Settings.paper(k=6, lam=1.0, temperature=0.2),
}


def refreshes(lengths, heads, seed=0, ties=False, spread=3):
    """Evidence and prior of refreshes; with `ties` there are two kinds of candidates, so that most scores tie."""
    generator = torch.Generator().manual_seed(seed)
    evidence, prior = [], []
    for n in lengths:
        logits = torch.randn(heads, 3, n, generator=generator) * spread
        norms = torch.rand(heads, n, generator=generator) + 0.1
        if ties:
            logits, norms = (logits[:, :1] > 1).float().expand(-1, 3, -1), torch.ones(heads, n)
        evidence.append(evidence_of(logits, Settings()))
        prior.append(prior_of(norms, Settings(position_weight=0.0 if ties else 0.7)))
    return evidence, prior


def compare(evidence, prior, settings):
    lam = [choose(f, r, 3, settings).lam for f, r in zip(evidence, prior, strict=True)]
    found = rank_many(evidence, prior, lam, settings)
    assert len(found) == len(evidence)
    for i, (f, r, order) in enumerate(zip(evidence, prior, found, strict=True)):
        want = choose(f, r, 3, settings).ranked.numpy()
        assert order.dtype == np.int32 and order.shape == want.shape, f"refresh {i} of {f.shape[1]} candidates"
        wrong = np.argwhere(order != want)
        assert not len(wrong), (
            f"refresh {i}, head and rank {wrong[0]}: {order[tuple(wrong[0])]} for {want[tuple(wrong[0])]}"
        )


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("name", CASES)
def test_together_is_one_by_one(name, lengths, heads):
    compare(*refreshes(lengths, heads), CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_ties_go_to_the_lower_position(name):
    evidence, prior = refreshes([1, 40, 61, 5, 300], 2, ties=True)
    z = choose(evidence[4], prior[4], 3, CASES[name]).exclusive
    assert len(z[0].unique()) < 20, "the scores must tie"
    compare(evidence, prior, CASES[name])


@pytest.mark.parametrize(
    "change", [{}, {"nms_strength": 0}, {"exclusivity": 0}, {"nms_strength": 0, "exclusivity": 0}], ids=str
)
def test_padding_never_outranks_a_suppressed_candidate(change):
    """Peaked evidence leaves most candidates at log ε, where padding stands too until it is hidden."""
    compare(*refreshes([30, 200, 29], 2, spread=90), Settings.paper(k=28, lam=0.0, **change))


@pytest.mark.parametrize("together", [1, 50, 400, 1 << 30])
def test_group_borders_change_nothing(monkeypatch, together):
    monkeypatch.setattr(batch, "_TOGETHER", together)
    compare(*refreshes([1, 37, 2, 131, 16, 17, 17, 300], 3, seed=4), Settings.paper(k=12))


def test_groups_are_whole_and_small(monkeypatch):
    monkeypatch.setattr(batch, "_TOGETHER", 100)
    shapes = [torch.Size((2, n)) for n in (10, 20, 30, 5, 400, 1, 1)]
    groups = [(g.start, g.stop) for g in batch._groups(shapes)]
    assert groups == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 7)]
    assert list(batch._groups([])) == [] and rank_many([], [], [], Settings()) == []


def test_inputs_are_left_alone():
    evidence, prior = refreshes([9, 20], 2)
    before = [x.clone() for x in (*evidence, *prior)]
    rank_many(evidence, prior, [torch.zeros(2)] * 2, Settings(k=3))
    assert all(torch.equal(x, y) for x, y in zip((*evidence, *prior), before, strict=True))


def test_ranking_of_hard_floats():
    z = np.array([[0.0, -0.0, 1e-45, -1e-45, -np.inf, 3.0, -3.0, 3.0, np.float32(-3.4e38)]], np.float32)
    assert batch.ranking(z, 99).tolist() == [[5, 7, 2, 0, 1, 3, 6, 8, 4]], "-0 equals 0, so the lower position is first"
    assert batch.ranking(z, 3).tolist() == [[5, 7, 2]]
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(4, 5, 333)).astype(np.float32).round(1)
    want = np.argsort(-wide, axis=-1, kind="stable")
    for k in (1, 7, 332, 333):
        assert (batch.ranking(wide, k) == want[..., :k]).all(), k


@pytest.mark.parametrize("radius", [1, 2, 3, 7, 16, 63, 64])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_window_maximum_by_doubling(n, radius):
    z = torch.randn(2, 3, n, generator=torch.Generator().manual_seed(n))
    want = torch.stack([z[..., max(0, j - radius) : j + radius + 1].amax(-1) for j in range(n)], -1)
    assert torch.equal(window_max(z, radius), want)


def test_an_unclipped_balance_clipped_later_is_the_clipped_one():
    f, r = (x[0] for x in refreshes([50], 3, seed=7))
    for clip in (0.0, 0.02, 0.35, 1.0):
        assert torch.equal(balance(f, r, math.inf).clamp(0.0, clip), balance(f, r, clip))
