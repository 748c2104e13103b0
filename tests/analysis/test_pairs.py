"""Pair statistics against sets and sums written out one pair at a time."""

import numpy as np
import pytest

from made_traces import made_trace, sentences_of, turning_over, unrelated
from sfi_lab.analysis import half_life, pair_values, supports
from sfi_lab.analysis.pairs import support_sizes
from sfi_lab.errors import SfiError


def average_ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in order[i : j + 1]:
            ranks[k] = (i + j) / 2
        i = j + 1
    return ranks


def by_hand(positions, weights, total, sizes, t, lag):
    a, b = positions[t][: sizes[t]].tolist(), positions[t + lag].tolist()
    top_b = set(b[: sizes[t + lag]])
    later = dict(zip(b, weights[t + lag], strict=True))
    common = len(set(a) & top_b)
    listed = [p for p in a if p in later]
    where = [b.index(p) if p in later else len(b) for p in a]
    rho = np.corrcoef(np.arange(len(a)), average_ranks(where))[0, 1] if listed and len(a) > 1 else np.nan
    return {
        "overlap": common / len(a), "jaccard": common / len(set(a) | top_b),
        "kept": sum(later[p] for p in listed) / total[t + lag], "rank": rho,
    }  # fmt: skip


@pytest.mark.parametrize(("n", "share"), [(7, None), (100, None), (1, 0.6), (1, 0.999)])
def test_every_pair_by_hand(tmp_path, n, share):
    rng = np.random.default_rng(3)
    steps, rows, m = 23, 3, 13
    positions = unrelated(steps, m, rows, among=30, seed=4)
    weights = -np.sort(-rng.dirichlet(np.ones(m) * 0.5, (steps, rows)), axis=-1) * 0.9
    trace = made_trace(tmp_path, positions, sentences_of([5], steps), weights=weights, heads=3, rest=0.1)
    s = supports(trace)
    sizes = support_sizes(s, n, share)
    pairs = pair_values(s, [1, 2, 9], n, share)
    assert pairs.lags.tolist() == [1, 2, 9]
    for at, lag in enumerate(pairs.lags):
        for row in range(rows):
            for t in range(steps - lag):
                want = by_hand(positions[:, row], s.weights[:, row], s.total[:, row], sizes[:, row], t, lag)
                for metric, value in want.items():
                    got = pairs.values[metric][at, t, row]
                    assert got == pytest.approx(value, abs=2e-5, nan_ok=True), (
                        f"{metric} of steps {t + 1} and {t + 1 + lag}, row {row}"
                    )
            assert np.isnan(pairs.values["overlap"][at, steps - lag :, row]).all(), "pairs past the end must be nan"


def test_share_takes_the_fewest_positions_that_reach_it(tmp_path):
    weights = np.array([[[0.5, 0.2, 0.1, 0.1]]])
    s = supports(made_trace(tmp_path, np.arange(4).reshape(1, 1, 4), np.zeros(1, int), weights=weights, rest=0.1))
    assert [int(support_sizes(s, share=p)[0, 0]) for p in (0.3, 0.5, 0.6, 0.7, 0.9, 0.95)] == [1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize("h", [3.0, 12.0])
def test_turnover_of_a_known_half_life_is_found(tmp_path, h):
    positions, highest = turning_over(300, h)
    trace = made_trace(tmp_path, positions, sentences_of([300], 300), prompt=int(highest) + 1)
    curve = np.nanmean(pair_values(supports(trace), 12, 64, metrics=["overlap"]).values["overlap"], axis=(1, 2))
    assert half_life(range(1, 13), curve) == pytest.approx(h, rel=0.1)


def test_lags_beyond_the_trace_are_dropped_and_bad_arguments_named(tmp_path):
    s = supports(made_trace(tmp_path, unrelated(5), sentences_of([2], 5)))
    assert pair_values(s, 16).lags.tolist() == [1, 2, 3, 4]
    for wrong in ({"lags": [0]}, {"metrics": ["overlaps"]}, {"share": 1.5}, {"n": 0}):
        with pytest.raises(SfiError, match="pair_values takes metrics of overlap"):
            pair_values(s, **wrong)
