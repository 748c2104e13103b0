"""Scores of long generation and perplexity, against values worked out by hand."""

import math

import pytest

from sfi_lab.errors import SfiError
from sfi_lab.tasks import generation_scores, perplexity
from sfi_lab.tasks.generation import distinct, equal_share, first_difference, longest_loop, mean_nll, repeated


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities():
    assert perplexity([math.log(0.5), math.log(0.125)]) == pytest.approx(4.0)  # (1/2 * 1/8) ** (-1/2)
    assert mean_nll([-1.0, -2.0, -6.0]) == pytest.approx(3.0)
    with pytest.raises(SfiError, match="one token at least"):
        perplexity([])


@pytest.mark.parametrize(
    ("ids", "n", "share"),
    [
        ([1, 2, 1, 2, 1], 1, 2 / 5),
        ([1, 2, 1, 2, 1], 2, 2 / 4),
        ([1, 2, 1, 2, 1], 3, 2 / 3),
        ([1, 2, 3], 4, 1.0),
        ([], 1, 1.0),
    ],
)
def test_distinct_and_repeated(ids, n, share):
    assert distinct(ids, n) == pytest.approx(share)
    assert repeated(ids, n) == pytest.approx(1 - share)


@pytest.mark.parametrize(
    ("ids", "loop"),
    [
        ([1, 2, 3, 4], 0),
        ([9, 5, 5, 5], 2),  # 5 is said again twice
        ([9, 1, 2, 3, 1, 2, 3, 1], 4),  # 3 and 1 of the next round
        ([1, 2, 1, 2, 9], 0),
        ([], 0),
    ],
)
def test_a_loop_at_the_end_is_measured(ids, loop):
    assert longest_loop(ids) == loop


@pytest.mark.parametrize(
    ("ids", "dense", "at", "share"),
    [
        ([1, 2, 3], [1, 2, 3], None, 1.0),
        ([1, 2, 3, 4], [1, 9, 3, 4], 1, 3 / 4),
        ([1, 2], [1, 2, 3, 4], 2, 1 / 2),
        ([5], [6], 0, 0.0),
        ([], [], None, 1.0),
    ],
)
def test_divergence_from_dense(ids, dense, at, share):
    assert first_difference(ids, dense) == at
    assert equal_share(ids, dense) == pytest.approx(share)


def test_all_scores_of_a_run():
    found = generation_scores([7, 8, 7, 8, 7, 8], [math.log(0.25)] * 6, [7, 8, 7, 9])
    assert found == {
        "tokens": 6,
        "perplexity": pytest.approx(4.0),
        "repeated_4": pytest.approx(1 / 3),  # 7878, 8787, 7878
        "loop_tokens": 4,
        "distinct_1": pytest.approx(2 / 6),
        "distinct_2": pytest.approx(2 / 5),
        "distinct_3": pytest.approx(2 / 4),
        "first_difference": 3,
        "equal_share": pytest.approx(3 / 6),
    }
    assert generation_scores([1], None, [1])["perplexity"] is None
    with pytest.raises(SfiError, match="2 tokens need as many log-probabilities; got 1"):
        generation_scores([1, 2], [-1.0], [1, 2])
