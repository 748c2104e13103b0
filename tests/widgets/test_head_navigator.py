"""Head navigator: recorded metrics, means of chosen heads, and the background run over all layers."""

import threading

import numpy as np
import polars as pl
import pytest

from sfi_lab import SfiError, Trace
from sfi_lab.analysis import measure, whatif
from sfi_widgets import MEAN, HeadNavigator, Session, Workbench, all_layers
from synthetic_trace import write_trace


def values(panel, name):
    panel.metric = name
    return panel.values()


def test_metric_menu_holds_what_was_asked_for(trace):
    names = [m["name"] for m in HeadNavigator(trace).metrics]
    assert {"churn", "lam", "keys_read", "stability"} <= set(names)


def test_stability_is_measured_when_chosen(trace):
    panel = HeadNavigator(trace)
    assert next(m for m in panel.metrics if m["name"] == "stability")["pending"]
    found = measure(trace, lags=[1], metrics=("overlap",), n=24)
    row = int(np.flatnonzero((found.layers == 3) & (found.kv_heads == 1))[0])
    assert values(panel, "stability")[3, 1] == pytest.approx(np.nanmean(found.values["overlap"][0, :, row]), abs=1e-6)


def test_summaries_of_all_layers_follow_the_settings(trace):
    bench = Workbench(trace)
    changed = trace.settings.with_(k=6, lam=0.5)
    bench.state.settings = changed
    assert bench.heads.busy and bench.heads.summary == ""
    assert bench.heads.wait(60) and not bench.heads.busy
    expected = whatif(trace, changed, output_error=False)
    assert bench.heads.summary_kind == expected.kind == "exact"
    assert f"mass kept {100 * expected.summary['kept']:.2f} %" in bench.heads.summary
    rows = expected.steps.filter((pl.col("layer") == 1) & (pl.col("kv_head") == 2))
    assert values(bench.heads, "now_missed")[1, 2] == pytest.approx(rows["missed"].mean(), abs=1e-6)
    bench.set(t_max=5)
    assert np.isnan(bench.heads.values()).all(), "numbers of other settings are taken off at once"
    assert bench.heads.wait(60) and bench.heads.summary_kind == "proxy"
    assert np.isfinite(bench.heads.values()[1, 2])


def test_the_newest_request_wins_and_stale_results_are_never_shown(trace, monkeypatch):
    """The first run is held back until the second has finished; nothing of it may arrive."""
    entered, release, shown = threading.Event(), threading.Event(), []

    def slow(recording, settings, **asked):
        if settings.k == 5:
            entered.set()
            assert release.wait(20)
            asked["progress"](1, 2)
            asked = {**asked, "cancel": None}  # even a run that can't be stopped must not be shown
        return whatif(recording, settings, **asked)

    monkeypatch.setattr(all_layers, "whatif", slow)
    nothing = lambda *_: None  # noqa: E731
    progress = []
    runs = all_layers.AllLayers(trace, nothing, lambda *p: progress.append(p), shown.append, nothing, pause=0.0)
    runs.ask(trace.settings.with_(k=5))
    first = runs._thread
    assert entered.wait(20)
    runs.ask(trace.settings.with_(k=9))
    assert runs.wait(20)
    seen = len(progress)
    release.set()
    first.join(20)
    assert [f.settings.k for f in shown] == [9] and len(progress) == seen


def test_a_failure_is_a_sentence(trace, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no memory left")

    monkeypatch.setattr(all_layers, "whatif", broken)
    panel = HeadNavigator(trace)
    panel.state.apply(k=3)
    assert panel.wait(20) and panel.summary == "no summaries: RuntimeError: no memory left" and not panel.busy


def test_without_queries_nothing_is_run_and_the_recording_is_summed_up(tmp_path):
    trace = Trace.open(write_trace(tmp_path / "bare", qk=False, steps=20))
    panel = HeadNavigator(trace)
    assert panel.wait(1) and panel.summary == ""
    panel.state.apply(k=5)
    keys = trace.support.select(pl.col("keys_read").mean()).collect().item()
    assert panel.wait(1) and not panel.busy
    assert panel.summary == f"all 2 layers recorded, not re-selected: {keys:,.0f} keys a step"
    panel.state.reset()
    assert panel.summary == ""


def test_layers_without_queries_show_the_recording_and_say_so(tmp_path):
    trace = Trace.open(write_trace(tmp_path / "mixed", layers=(1, 3, 4), qk_layers=(3,), steps=30))
    panel = HeadNavigator(trace)
    panel.state.apply(k=6)
    assert panel.wait(60) and "; the other 2 layers recorded, not re-selected: " in panel.summary
    recorded = trace.support.group_by("layer", "kv_head").agg(pl.col("keys_read").mean()).collect()
    for layer, head, keys in recorded.iter_rows():
        shown = values(panel, "now_keys")[layer, head]
        assert (shown == pytest.approx(keys, rel=1e-5)) == (layer != 3), (layer, head, shown, keys)
    marked = {m["name"]: m["recorded"] for m in panel.metrics if m["name"].startswith("now_")}
    assert marked == {"now_missed": [], "now_lam": [1, 4], "now_overlap": [], "now_keys": [1, 4]}, (
        "no audit: no missed mass"
    )
    lam = trace.selection.filter(pl.col("layer") == 4).group_by("kv_head").agg(pl.col("lam").mean()).collect()
    for head, mean in lam.iter_rows():
        assert values(panel, "now_lam")[4, head] == pytest.approx(mean, abs=1e-6)
    assert np.isnan(values(panel, "now_overlap")[1]).all() and np.isfinite(panel.values()[3]).all()


def test_sliding_layers_hold_no_numbers(tmp_path):
    kinds = ["sliding", "full", "sliding", "full", "chunked"]
    trace = Trace.open(write_trace(tmp_path / "sliding", layer_kinds=kinds, steps=30))
    panel = HeadNavigator(trace)
    assert panel.layer_kinds == kinds
    panel.state.apply(k=6)
    assert panel.wait(60)
    for metric in [m["name"] for m in panel.metrics]:
        shown = values(panel, metric)
        assert shown.shape == (5, 3) and np.isnan(shown[[0, 2, 4]]).all() and np.isfinite(shown[[1, 3]]).any(), metric
    axes = panel.to_figure().axes[0]
    assert len([p for p in axes.patches if p.get_hatch()]) == 3, "each layer with a window of its own is hatched"
    with pytest.raises(SfiError, match="layer 2 was not recorded; recorded layers: 1, 3"):
        panel.state.layer = 2


def test_a_metric_of_current_settings_can_be_chosen_before_it_is_there(trace):
    panel = HeadNavigator(trace, metric="now_keys")
    assert np.isnan(panel.values()).all()
    panel.state.apply(k=6)
    assert panel.wait(60) and np.isfinite(panel.values()[1]).all()
    with pytest.raises(SfiError, match="metric 'nonsense' does not exist; allowed: "):
        panel.metric = "nonsense"


def test_all_layers_are_run_for_a_state_that_is_taken_over(trace):
    old = Workbench(trace).set(k=5)
    new = Workbench(trace, state=old)
    assert new.heads.wait(60) and new.heads.summary.startswith("current settings, 2 layers")


def test_mean_of_several_heads(trace):
    session = Session(trace)
    session.state.kv_head, session.state.among = MEAN, (2, 0)
    assert session.state.among == (0, 2) and session.state.head_name == "mean of KV heads 0, 2"
    kept = {}
    for head in (0, 2):
        one = Session(trace)
        one.state.kv_head = head
        kept[head] = one
    np.testing.assert_allclose(session.now.kept, (kept[0].now.kept + kept[2].now.kept) / 2, rtol=1e-6)
    both = set(kept[0].selected_at(33)) | set(kept[2].selected_at(33))
    assert set(session.selected_at(33)) == both and session.now.ranking.heads == 2
    step = 17
    expected = {}
    rows = trace.support.filter(
        (pl.col("layer") == session.state.layer) & (pl.col("step") == step) & (pl.col("kv_head") != 1)
    )
    for positions, weights in rows.collect().select("positions", "weights").iter_rows():
        for p, w in zip(positions, weights, strict=True):
            expected[p] = expected.get(p, 0.0) + w / 2
    start, end = session.support.rows.offsets[step], session.support.rows.offsets[step + 1]
    shown = dict(zip(session.support.rows[step].tolist(), session.support.weights[start:end].tolist(), strict=True))
    assert shown == pytest.approx(expected, abs=1e-6)
    session.state.among = (0, 1, 2)
    assert session.state.among == () and session.state.head_name == "mean of KV heads"
    with pytest.raises(SfiError, match="allowed: 0 to 2"):
        session.state.among = (7,)
