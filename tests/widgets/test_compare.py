"""Compare: both sides are what the replay says, each number with its kind, tokens side by side."""

import numpy as np
import polars as pl
import pytest

from sfi_lab import SfiError, Trace
from sfi_lab.analysis import LayerReplay
from sfi_widgets import Compare, Workbench
from synthetic_trace import SETTINGS, write_trace


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another recording: the same model, other text, fewer steps and a smaller K."""
    folder = tmp_path_factory.mktemp("other") / "second"
    return Trace.open(write_trace(folder, steps=40, settings=SETTINGS.with_(k=10), seed=11))


def row(panel, name):
    return next(m for m in panel.metrics if m["name"] == name)


def test_two_settings_on_one_trace_are_both_replayed(trace):
    second = trace.settings.with_(k=7, t_max=6)
    panel = Compare(trace, second)
    layer = panel.state.layer
    one, two = (LayerReplay(trace, layer, output_error=False).run(s) for s in (trace.settings, second))
    assert (row(panel, "kept")["a"], row(panel, "kept")["b"]) == pytest.approx(
        (one.kept[:, 0].mean(), two.kept[:, 0].mean()), abs=1e-6
    )
    assert row(panel, "keys")["b"] == pytest.approx(two.keys_read.mean())
    assert row(panel, "refreshes")["b"] == len(two.refresh_steps) > row(panel, "refreshes")["a"]
    assert (row(panel, "kept")["a_kind"], row(panel, "kept")["b_kind"], row(panel, "kept")["kind"]) == (
        "exact", "proxy", "proxy",
    )  # fmt: skip
    assert row(panel, "missed")["a"] == pytest.approx(1 - row(panel, "kept")["a"])


def test_the_set_difference_is_that_of_the_selections(trace):
    panel = Compare((trace, trace.settings), (trace, trace.settings.with_(lam=1.0)))
    parts = panel.difference(33)
    before = set(panel.session.recorded.at(int(np.searchsorted(panel.session.recorded.steps, 33, "right")) - 1, 24))
    after = set(panel.session.selected_at(33))
    assert set(parts["both"]) == before & after
    assert set(parts["a"]) == before - after and set(parts["b"]) == after - before and len(parts["a"]) > 0
    assert 0 < row(panel, "overlap")["b"] < 1


def test_equal_settings_do_not_differ(trace):
    panel = Compare(trace, trace.settings)
    assert row(panel, "overlap")["b"] == 1.0
    assert all(m["a"] == m["b"] for m in panel.metrics)
    assert all(not len(panel.difference(s)[x]) for s in range(1, 60) for x in "ab")


def test_two_traces_stand_side_by_side(trace, other):
    panel = Compare(trace, other)
    assert [s.steps for s in panel.sides] == [60, 40] and "the first 40 steps" in panel.note
    assert (row(panel, "keys")["a_kind"], panel.b["k"], panel.b["count"]) == ("exact", 10, 40)
    assert panel.tokens["a"] == trace.steps["text"].to_list() and panel.tokens["kind"] == "exact"
    panel.state.layer = 1
    assert row(panel, "keys")["a"] == pytest.approx(LayerReplay(trace, 1, False).run(trace.settings).keys_read.mean())


def test_pinning_in_the_workbench(trace):
    bench = Workbench(trace)
    assert bench.compare.sides is None, "a hidden panel does not compute"
    bench.tabs.selected_index = list(bench.tabs.children).index(bench.compare)
    bench.set(k=6)
    assert (bench.compare.a["k"], bench.compare.b["k"]) == (24, 6)
    bench.compare.pin()
    bench.set(k=12)
    assert (bench.compare.a["k"], bench.compare.b["k"]) == (6, 12) and bench.compare.pinned
    bench.compare.unpin()
    assert bench.compare.a["k"] == 24 and not bench.compare.pinned
    assert "selections overlap" in repr(bench.compare)


def test_a_new_run_goes_beside_the_recording(trace):
    bench = Workbench(trace)
    ids = [*trace.token_ids[:4], 7, 8]
    bench.decode.running = True
    bench.decode.ids, bench.decode.words = ids, [f" t{i}" for i in ids]
    bench.decode.running = False
    tokens = bench.compare.tokens
    assert (tokens["first"], tokens["same"], tokens["kind"]) == (4, 4, "re-run")


def test_without_queries_only_the_recording_compares(tmp_path):
    bare = Trace.open(write_trace(tmp_path / "bare", qk=False, steps=30))
    panel = Compare(bare, bare.settings)
    assert row(panel, "kept")["a"] is None and row(panel, "overlap")["b"] == 1.0
    refused = Compare(bare, bare.settings.with_(k=3))
    assert refused.sides is None and "without queries and keys" in refused.error
    with pytest.raises(SfiError, match="Compare takes a Trace"):
        Compare(bare, 3)


def test_without_queries_an_audit_has_the_mass(tmp_path):
    """What the recording measured beside the run stands in for a re-selection: of the chosen layer and heads alone."""
    bare = Trace.open(write_trace(tmp_path / "bare", qk=False, steps=30))
    panel = Compare(bare, bare.settings)
    assert row(panel, "missed")["a"] is None
    assert f"A has no mass kept: layer {panel.state.layer} was recorded without queries and keys" in panel.note
    audited = write_trace(tmp_path / "audited", qk=False, steps=30)
    for part in (audited / "support").glob("*.parquet"):
        missed = 0.01 * pl.col("kv_head") + 0.1 * pl.col("layer") + 0.001 * pl.col("step")
        pl.read_parquet(part).with_columns(missed=missed.cast(pl.Float32)).write_parquet(part)
    panel = Compare(bare, Trace.open(audited))
    panel.state.layer, panel.state.kv_head = 1, 1
    assert row(panel, "missed")["b"] == pytest.approx(0.01 + 0.1 + 0.001 * 15, abs=1e-6), "steps 1 to 29"
    assert (row(panel, "kept")["a"], row(panel, "kept")["b_kind"]) == (None, "exact")
    assert "A has no mass kept" in panel.note and "B has no mass kept" not in panel.note
    panel.state.among, panel.state.kv_head = (0, 1), -1
    assert row(panel, "missed")["b"] == pytest.approx(0.005 + 0.1 + 0.001 * 15, abs=1e-6)
    assert len(panel.to_figure().axes[0].lines) == 1
