"""Stability on traces whose answer is known: perfect, none, an effect of a given size, heads that copy each other."""

import numpy as np
import pytest

from made_traces import by_sentence, made_trace, sentences_of, stable, unrelated
from sfi_lab.analysis import boundaries as cut
from sfi_lab.analysis import curve, measure, stability
from sfi_lab.errors import SfiError

OPTIONS = {"draws": 200, "permutations": 200}
LENGTHS = [9, 14, 6, 11, 17]


def overall(found, metric):
    return found.effects.filter((found.effects["metric"] == metric) & found.effects["lag"].is_null()).row(0, named=True)


def test_perfect_stability_has_no_decay_and_no_boundary_effect(tmp_path):
    found = stability(made_trace(tmp_path, stable(120), sentences_of(LENGTHS, 120)), lags=8, n=16, **OPTIONS)
    overlap = found.curves.filter(found.curves["metric"] == "overlap")
    assert overlap["mean"].to_list() == [1.0] * 16
    assert found.layers["half_life"].to_list()[0] == float("inf")
    assert overall(found, "overlap")["effect"] == 0.0
    assert "no visible effect" in found.verdict
    assert found.source == "dense"


def test_no_stability_says_so_plainly(tmp_path):
    found = stability(made_trace(tmp_path, unrelated(150), sentences_of(LENGTHS, 150)), lags=8, n=16, **OPTIONS)
    means = found.curves.filter(found.curves["metric"] == "overlap")["mean"]
    assert means.mean() == pytest.approx(16 / 350, abs=0.01), "unrelated supports must overlap by chance alone"
    row = overall(found, "overlap")
    assert abs(row["effect"]) < 0.01
    assert "no visible effect" in found.verdict


@pytest.mark.parametrize("own", [4, 8])
def test_an_effect_of_a_given_size_is_found(tmp_path, own):
    labels = sentences_of(LENGTHS, 150)
    positions = by_sentence(labels, common=16 - own, own=own)
    found = stability(made_trace(tmp_path, positions, labels), lags=6, n=16, **OPTIONS)
    row = overall(found, "overlap")
    assert row["effect"] == pytest.approx(own / 16, abs=0.02)
    assert row["p"] < 0.01
    assert row["low"] <= row["effect"] <= row["high"]
    assert "a strong effect, supports agree more within a sentence" in found.verdict
    for lag in (1, 6):
        one = found.effects.filter((found.effects["metric"] == "overlap") & (found.effects["lag"] == lag)).row(
            0, named=True
        )
        assert one["effect"] == pytest.approx(own / 16, abs=0.03), f"at lag {lag}"


def test_the_opposite_effect_is_called_by_its_name(tmp_path):
    labels = sentences_of(LENGTHS, 150)
    # supports mirror the place in the sentence: its end looks where the next one's beginning looks, neighbours inside differ
    place = np.concatenate([np.minimum(np.arange(n), np.arange(n)[::-1]) for n in np.bincount(labels)])
    positions = (20 * place[:, None] + np.arange(16))[:, None]
    found = stability(made_trace(tmp_path, positions, labels), lags=[1], n=16, **OPTIONS)
    assert overall(found, "overlap")["effect"] < -0.7
    assert "supports agree less within a sentence" in found.verdict


def test_heads_that_copy_each_other_have_the_same_numbers(tmp_path):
    one = unrelated(60, among=60)
    found = stability(
        made_trace(tmp_path, np.repeat(one, 6, axis=1), sentences_of(LENGTHS, 60), layers=(2, 5, 9), heads=2),
        lags=4,
        n=16,
        **OPTIONS,
    )
    for column in ("level", "half_life", "effect", "low", "high"):
        values = found.heads.filter(found.heads["metric"] == "overlap")[column].to_list()
        assert len(values) == 6
        assert len(set(values)) == 1, f"{column} differs between copies: {values}"
    assert found.layers["layer"].unique().sort().to_list() == [2, 5, 9]


def test_one_noisy_head_among_steady_ones_is_told_apart(tmp_path):
    positions = np.concatenate([stable(80, rows=3), unrelated(80)], axis=1)
    found = stability(
        made_trace(tmp_path, positions, sentences_of(LENGTHS, 80), layers=(0, 1), heads=2), lags=4, n=16, **OPTIONS
    )
    level = found.heads.filter(found.heads["metric"] == "overlap")["level"].to_list()
    assert level[:3] == [1.0, 1.0, 1.0]
    assert level[3] < 0.15


def test_false_alarms_are_as_rare_as_the_test_says(tmp_path):
    """Supports that drift on without regard to sentences: p must not pile up near 0."""
    p = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(5, 18, 12)
        walk = np.cumsum(rng.integers(0, 3, 100))
        positions = (walk[:, None] + np.arange(16))[:, None]
        trace = made_trace(tmp_path / str(seed), positions, sentences_of(lengths, 100))
        p.append(
            overall(stability(trace, lags=5, n=16, metrics=["overlap"], draws=20, permutations=100), "overlap")["p"]
        )
    assert np.mean(np.array(p) < 0.05) <= 0.2, f"false alarms: {sorted(p)[:5]}"


def test_curve_alone_agrees_with_the_full_result(tmp_path):
    m = measure(made_trace(tmp_path, unrelated(70, among=50), sentences_of(LENGTHS, 70)), lags=5, n=16)
    full = stability(m, **OPTIONS).curves
    quick = curve(m)
    for side in ("within", "across"):
        want = full.filter((full["metric"] == "overlap") & (full["side"] == side))
        np.testing.assert_allclose(quick[side], want["mean"], rtol=1e-6)
        assert quick[f"pairs_{side}"].to_list() == want["pairs"].to_list()


def test_pairs_that_touch_a_sentence_end_can_be_left_out(tmp_path):
    m = measure(made_trace(tmp_path, stable(60), sentences_of([10], 60)), lags=1, n=16)
    with_ends, without = stability(m, **OPTIONS).curves, stability(m, skip_ends=True, **OPTIONS).curves
    across = with_ends.filter((with_ends["metric"] == "overlap") & (with_ends["side"] == "across"))["pairs"].item()
    assert across == 5
    assert without.filter((without["metric"] == "overlap") & (without["side"] == "across"))["pairs"].item() == 0


def test_shuffled_boundaries_keep_the_sentence_lengths():
    labels = sentences_of([3, 7, 2, 5], 40)
    shuffled = cut.shuffled_boundaries(labels, 50, seed=1)
    want = sorted(np.bincount(labels))
    assert shuffled.shape == (50, 40)
    for row in shuffled:
        assert sorted(np.bincount(row)) == want
        assert (np.diff(row) >= 0).all()
    assert len({tuple(row) for row in shuffled}) > 40, "the shuffles hardly differ"


def test_sums_by_sentence_add_up_to_all_pairs():
    rng = np.random.default_rng(2)
    labels, lags = sentences_of([4, 6, 3], 30), np.array([1, 3])
    values = rng.random((2, 30, 2)).astype(np.float32)
    for at, lag in enumerate(lags):
        values[at, -lag:] = np.nan
    sums, counts = cut.sentence_sums(values, lags, labels, None)
    for at, lag in enumerate(lags):
        pairs = [(labels[t] == labels[t + lag], values[at, t]) for t in range(30 - lag)]
        for side, same in ((0, True), (1, False)):
            want = sum(v for s, v in pairs if s == same)
            np.testing.assert_allclose(sums[:, at, side].sum(0), want, rtol=1e-5)
            assert counts[:, at, side, 0].sum() == sum(s == same for s, _ in pairs)


def test_traces_that_differ_in_layers_are_refused(tmp_path):
    a = made_trace(tmp_path / "a", stable(20), sentences_of([5], 20))
    b = made_trace(tmp_path / "b", stable(20), sentences_of([5], 20), layers=(3,))
    with pytest.raises(SfiError, match="differ in layers"):
        stability([a, b], lags=3, **OPTIONS)
    with pytest.raises(SfiError, match="at least one trace"):
        stability([])


def test_stability_of_what_fast_steps_read_carries_a_warning(tmp_path):
    found = stability(made_trace(tmp_path, stable(30), sentences_of([6], 30), sparse=True), lags=3, n=16, **OPTIONS)
    assert found.source == "read"
    assert "the memory's own" in found.verdict
