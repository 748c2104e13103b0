"""Intervals, tests and half-lives against values that can be worked out."""

import numpy as np
import pytest

from sfi_lab.analysis.statistics import (
    Estimate,
    bootstrap_mean,
    effect_in_words,
    half_life,
    holm,
    paired_difference,
    permutation_p,
    spearman,
)


def test_bootstrap_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(200):
        e = bootstrap_mean(rng.normal(3.0, 1.0, 30), draws=400, seed=i)
        hits += e.low <= 3.0 <= e.high
    assert 0.88 <= hits / 200 <= 0.99, f"a 95 % interval covered the mean in {hits / 2:.1f} % of 200 trials"


def test_one_value_has_no_interval_and_nan_is_left_out():
    e = bootstrap_mean([2.0, float("nan")])
    assert e.value == 2.0
    assert np.isnan(e.low)
    assert e.n == 1


def test_sign_flip_is_exact_for_few_pairs():
    # all five differences positive: 2 of the 32 sign patterns are as far from 0
    e = paired_difference([2, 3, 4, 5, 6], [1, 1, 1, 1, 1])
    assert e.p == pytest.approx(2 / 32)
    assert e.value == pytest.approx(3.0)


def test_paired_test_keeps_its_level_and_finds_a_paired_effect():
    rng = np.random.default_rng(1)
    level = [paired_difference(rng.normal(size=20), rng.normal(size=20), draws=300, seed=i).p for i in range(150)]
    assert np.mean(np.array(level) < 0.05) < 0.12, f"false alarms in {np.mean(np.array(level) < 0.05):.0%} of trials"
    prompts = rng.normal(0, 10, 24)  # prompts differ much more than the arms do
    e = paired_difference(prompts + 0.5 + rng.normal(0, 0.2, 24), prompts)
    assert e.p < 0.01
    assert e.low > 0.3


def test_permutation_p_counts_both_sides_around_the_permutations_mean():
    permuted = np.arange(-50, 50, dtype=float)[:, None] + 7.5  # mean 7
    assert permutation_p(np.array([7.0]), permuted)[0] == pytest.approx(1.0)
    assert permutation_p(np.array([200.0]), permuted)[0] == pytest.approx(1 / 101)


def test_holm_by_hand():
    assert holm([0.01, 0.04, float("nan"), 0.03]) == pytest.approx([0.03, 0.06, float("nan"), 0.06], nan_ok=True)


@pytest.mark.parametrize("h", [0.7, 4.0, 33.0])
def test_half_life_of_an_exponential(h):
    lags = np.arange(1, 17)
    assert half_life(lags, 0.2 + 0.6 * 0.5 ** (lags / h), floor=0.2) == pytest.approx(h, rel=1e-6)


def test_half_life_without_decay_is_infinite_and_without_data_nan():
    assert half_life([1, 2, 3], [0.5, 0.5, 0.5]) == float("inf")
    assert half_life([1, 2, 3], [0.1, 0.2, 0.3]) == float("inf")
    assert np.isnan(half_life([1, 2], [0.5, float("nan")]))


def test_spearman_with_ties_by_hand():
    # ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4
    assert spearman([1, 5, 5, 9], [10, 30, 20, 40]) == pytest.approx(0.9486833)
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (Estimate(0.3, 0.2, 0.4, 0.001), "a strong effect, more alike"),
        (Estimate(-0.05, -0.07, -0.03, 0.001), "a moderate effect, less alike"),
        (Estimate(0.005, 0.002, 0.008, 0.001), "a very small effect, more alike"),
        (Estimate(0.02, -0.01, 0.05, 0.001), "no visible effect"),
        (Estimate(0.3, 0.2, 0.4, 0.3), "no visible effect"),
        (Estimate(float("nan"), float("nan"), float("nan")), "nothing to compare"),
    ],
)
def test_verdicts_in_words(effect, words):
    assert words in effect_in_words(effect, "Boundaries", "more alike", "less alike")
