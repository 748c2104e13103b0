"""Static twins draw the panels' own arrays, and a workbench picks up another one's state."""

import numpy as np
import polars as pl
import pytest

from sfi_lab import SfiError, Trace
from sfi_widgets import Compare, SelectorAnatomy, SlowStepTiming, StabilityPanel, TextView, Workbench
from synthetic_trace import write_trace
from test_timing_panel import ROWS


def test_text(trace):
    panel = TextView(trace)
    panel.state.cursor = 40
    figure = panel.to_figure()
    figure.canvas.draw()
    last = int(trace.steps["position"][40]) + 1
    texts = figure.axes[0].texts
    assert "".join(t.get_text() for t in texts) == "".join(trace.tokens["text"].to_list()[: last + 1])
    figure.set_dpi(80)
    longest = max(texts, key=lambda t: len(t.get_text()))
    drawn = longest.get_window_extent().width / figure.axes[0].transData.transform([[0, 0], [1, 0]])[1:, 0].item()
    print(drawn)
    assert len(figure.axes[0].patches) == len(panel.kept()) + 1, "every kept token is tinted, and the cursor's"


def test_anatomy(trace):
    bench = Workbench(trace).set(nms_strength=1.5)
    bench.state.cursor = 40
    figure = bench.anatomy.to_figure()
    figure.canvas.draw()
    shares, scores, strips = figure.axes
    stage = bench.anatomy.stage
    assert [len(line.get_xdata()) for line in [*shares.lines, *scores.lines]] == [stage["candidates"]] * 6
    assert [len(c.get_segments()) for c in strips.collections][2] == stage["k"]
    assert not bench.anatomy.live, "drawing wakes no hidden panel"
    alone = SelectorAnatomy(trace)
    alone.state.cursor = 0
    with pytest.raises(SfiError, match="no refresh yet"):
        alone.to_figure()


def test_stability(trace):
    panel = StabilityPanel(trace)
    assert panel.wait(60)
    axes = panel.to_figure().axes[0]
    for line, side in zip(axes.lines, ("within", "across"), strict=True):
        np.testing.assert_allclose(line.get_ydata(), np.array(panel.curves[side], float))
    assert len(axes.collections) == 2, "both intervals are drawn"
    bench = Workbench(trace)
    bench.state.brush = (2, 9)
    with pytest.raises(SfiError, match="at least 24 steps"):
        bench.stability.to_figure()


def test_timing(trace):
    panel = SlowStepTiming(trace, pl.DataFrame(ROWS), bandwidth=1.0)
    figure = panel.to_figure()
    figure.canvas.draw()
    bars, _spread, streams = figure.axes
    tops = np.array([patch.get_data().values - patch.get_data().baseline for patch in bars.patches])
    np.testing.assert_allclose(tops, np.nan_to_num(panel.values()), rtol=1e-5, atol=1e-6)
    assert len(bars.lines) == 1 and sum(len(c.get_paths()) for c in streams.collections) == 3


def test_compare(trace):
    panel = Compare(trace, trace.settings.with_(k=5))
    kept, picked = panel.to_figure().axes
    np.testing.assert_allclose(kept.lines[1].get_ydata()[1:], panel.sides[1].kept[1:])
    starts = np.unique(np.r_[1, panel.sides[0].ranking.steps])
    assert len(picked.collections[0].get_segments()) == sum(len(panel.difference(int(s))["both"]) for s in starts)
    assert len(picked.collections[2].get_segments()) == 0, "a smaller K selects nothing new"


def test_a_new_workbench_takes_over_a_state(trace, tmp_path):
    old = Workbench(trace).set(k=7)
    old.state.layer, old.state.kv_head, old.state.among, old.state.cursor = 1, -1, (0, 2), 33
    old.state.brush = (10, 50)
    for given in (old, old.state):
        new = Workbench(Trace.open(trace.path), state=given)
        for name in ("settings", "layer", "kv_head", "among", "cursor", "brush", "span"):
            assert getattr(new.state, name) == getattr(old.state, name), name
        assert new.session.now.settings.k == 7 and new.session.hub.cursor == 33
        np.testing.assert_allclose(new.session.now.kept, old.session.now.kept)
    new.state.cursor = 5
    assert old.state.cursor == 33, "taken over, not shared"
    assert Workbench(trace).settings == trace.settings, "the default is a fresh start"
    other = Trace.open(write_trace(tmp_path / "other", steps=20))
    assert Workbench(other, state=old).settings == other.settings
    with pytest.raises(SfiError, match="state takes a Workbench"):
        Workbench(trace, state=3)
