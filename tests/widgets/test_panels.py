"""Panels: stable reprs that state facts, controls that answer what the front end asks, and a run that streams."""

import itertools

import numpy as np
import polars as pl
import pytest

from sfi_lab import Settings, SfiError
from sfi_lab.analysis import LayerReplay, curve, measure, selection_anatomy, stages, step_times
from sfi_lab.settings import FIELDS
from sfi_widgets import (
    Controls,
    DecodeAgain,
    HeadNavigator,
    RunStrip,
    SelectionPanel,
    SelectorAnatomy,
    SlowStepTiming,
    StabilityPanel,
    SupportMap,
    TextView,
    Workbench,
)
from sfi_widgets.controls import CODE_ONLY, stops


def test_reprs_state_facts_and_change_with_what_is_shown(trace):
    first, second = Workbench(trace), Workbench(trace)
    for name in ("map", "selection", "text", "controls", "decode"):
        assert repr(getattr(first, name)) == repr(getattr(second, name)), "a repr must not hold ids or addresses"
    assert (
        repr(first)
        == "Workbench(synthetic, 180 prompt tokens, 60 new, Settings.paper(recent=16, k=24, t_max=20, prefill_window=1))"
    )
    before = repr(first.selection)
    first.set(lam=1.0)
    assert repr(first.selection) != before
    assert "lam=1.0" in repr(first.controls)


@pytest.mark.parametrize(
    "panel",
    [
        SupportMap,
        SelectionPanel,
        TextView,
        Controls,
        DecodeAgain,
        RunStrip,
        HeadNavigator,
        SelectorAnatomy,
        StabilityPanel,
        SlowStepTiming,
    ],
)
def test_every_panel_stands_alone(trace, panel):
    alone = panel(trace)
    assert alone.session.trace is trace
    assert repr(alone).startswith(f"{panel.__name__}(layer ")


def test_workbench_says_what_it_takes():
    with pytest.raises(SfiError, match="Workbench takes a Trace or the path of one, not int"):
        Workbench(3)


def test_controls_answer_values_presets_and_code(trace):
    controls = Controls(trace)
    controls.wanted = {"values": trace.settings.to_dict() | {"k": 9}, "number": 1}
    assert (controls.answered, controls.values["k"], controls.error) == (1, 9, "")
    controls.wanted = {"values": trace.settings.to_dict() | {"k": -1}, "number": 2}
    assert controls.answered == 2 and controls.values["k"] == 9
    assert controls.error == "setting k = -1 is not allowed; allowed: a whole number ≥ 1"
    controls.wanted = {"code": "Settings.released(k=11)", "number": 3}
    assert controls.state.settings == Settings.released(k=11) and controls.error == ""
    controls.wanted = {"preset": "recorded", "number": 4}
    assert controls.state.settings == trace.settings and controls.preset == "recorded"
    controls.wanted = {"preset": "released", "number": 5}
    assert controls.state.settings == Settings.released(k=24, sink=4, recent=16, prefill_window=1)


def test_every_control_explains_itself(trace):
    spec = Controls(trace).spec
    items = [item for group in spec["groups"] for item in group["items"]]
    names = {i["name"] for i in items} | set(spec["parts"])
    assert names | set(CODE_ONLY) == set(FIELDS), "a new setting needs a knob (controls.py), or a reason to have none"
    assert {"lam", "k", "t_max", "trigger", "nms_strength", "nms_radius", "exclusivity", "sink", "recent"} <= {
        i["name"] for i in items
    }
    for item in items:
        assert item["meaning"] == FIELDS[item["name"]].meaning and item["allowed"]
        for value in item.get("stops", item.get("options")):
            trace.settings.with_(**{item["name"]: value})  # nothing a control offers is refused


@pytest.mark.parametrize("end", [1, 2, 15, 16, 17, 100, 4097])
def test_stops_rise_to_the_end(end):
    found = stops(end)
    assert found[0] == 1 and found[-1] == end
    assert all(a < b for a, b in itertools.pairwise(found))
    assert len(found) < 120


class Streaming:
    """Stands in for a lab: yields given tokens as `Lab.stream` does."""

    def __init__(self, name, tokens, fails_at=None):
        self.name, self.tokens, self.fails_at, self.asked = name, tokens, fails_at, None

    def stream(self, prompt, settings, max_new_tokens, **_):
        from sfi_lab.decoder import Step

        self.asked = (list(prompt), settings)
        for i, token in enumerate(self.tokens[:max_new_tokens]):
            if i == self.fails_at:
                raise RuntimeError("no memory left")
            route = "prefill" if i == 0 else "slow" if i % 4 == 1 else "fast"
            yield Step(i, token, f" t{token}", route, "", 0, 10.0, 40, -1.0)


def test_decode_again_streams_beside_the_recording(trace):
    lab = Streaming("synthetic", [*trace.token_ids[:5], 7, 8, 9])
    panel = Workbench(trace, lab=lab).set(k=6).decode
    panel.tokens = 8
    panel.start()
    assert panel.wait(20)
    prompt, settings = lab.asked
    assert prompt == trace.tokens["token_id"].to_list()[:180] and settings.k == 6
    assert panel.ids == [*trace.token_ids[:5], 7, 8, 9] and len(panel.words) == 8
    assert panel.summary == "New: 8 tokens, 2 slow steps of 7, 25.0 % of keys read"
    assert repr(panel).endswith("8 tokens, differs from token 6)")


def test_decode_again_shows_errors_as_a_sentence(trace):
    other = DecodeAgain(trace)
    other.session.lab = Streaming("another-model", [1])
    other.start()
    assert other.wait(20)
    assert "recording was made with synthetic, but this lab has another-model" in other.error
    failing = DecodeAgain(trace)
    failing.session.lab = Streaming("synthetic", list(range(9)), fails_at=3)
    failing.start()
    assert failing.wait(20)
    assert failing.error == "the run ended with RuntimeError: no memory left" and not failing.running


def test_stop_keeps_what_was_made(trace):
    panel = DecodeAgain(trace)

    class Endless(Streaming):
        def stream(self, prompt, settings, max_new_tokens, **_):
            for step in super().stream(prompt, settings, max_new_tokens):
                if step.index == 3:
                    panel.stop()
                yield step

    panel.session.lab = Endless("synthetic", list(range(500)))
    panel.tokens = 400
    panel.start()
    assert panel.wait(20)
    assert panel.ids == [0, 1, 2, 3] and "stopped" in panel.status


# the panels that look deeper ---------------------------------------------------------------------------------------


def test_run_strip_shows_the_steps_table(trace):
    strip = RunStrip(trace, metric="keys_read")
    expected = trace.steps["keys_read"].to_numpy()
    np.testing.assert_allclose(strip.values()[1:], expected[1:])
    assert np.isnan(strip.values()[0]), "the prompt's step is no decode step"
    names = {m["name"] for m in strip.metrics}
    assert names == {"keys_read", "ms_total", "logprob", "overlap"}, "columns without values are not offered"
    with pytest.raises(SfiError, match="metric 'speed' does not exist; allowed: "):
        strip.metric = "speed"


def test_run_strip_measures_the_overlap_when_it_is_chosen(trace):
    strip = RunStrip(trace)
    assert next(m for m in strip.metrics if m["name"] == "overlap")["pending"]
    strip.metric = "overlap"
    pairs = measure(trace, lags=[1], metrics=("overlap",), n=24)
    assert np.isnan(strip.values()[:2]).all(), "neither the prompt's step nor the first decode step has one before it"
    for step in (2, 31, 59):  # row i of the pairs is decode step i + 1 with the next
        assert strip.values()[step] == pytest.approx(np.nanmean(pairs.values["overlap"][0, step - 2]), abs=1e-6), step
    strip.metric = "kept"
    np.testing.assert_array_equal(strip.values(), strip.session.now.kept)


def test_head_navigator_agrees_with_the_analysis(trace):
    heads = HeadNavigator(trace, metric="lam")
    table = selection_anatomy(trace).filter((pl.col("layer") == 3) & (pl.col("kv_head") == 2))
    assert heads.values()[3, 2] == pytest.approx(table["lam"].mean(), abs=1e-6)
    assert np.isnan(heads.values()[0]).all(), "layer 0 was not recorded"


def test_anatomy_is_that_of_the_refresh_in_force(trace):
    bench = Workbench(trace)
    bench.anatomy.live = True
    bench.state.cursor = 40
    bench.set(nms_strength=1.5)
    stage = bench.anatomy.stage
    frame = stages(LayerReplay(trace, bench.state.layer), stage["step"], bench.settings, heads=[0])
    flags = np.frombuffer(stage["flags"], np.uint8)
    assert np.flatnonzero(flags & 4).tolist() == np.flatnonzero(frame["rank"].is_not_null()).tolist()
    assert set((np.flatnonzero(flags & 4) + 4).tolist()) == set(bench.session.selected_at(40).tolist())
    lost = frame.filter(pl.col("rank_before_nms").is_not_null() & pl.col("rank_before_exclusivity").is_null())
    assert stage["moved_by_nms"] == lost.height
    codes = np.frombuffer(stage["evidence"]["codes"], np.uint16)
    shown = stage["evidence"]["low"] + codes / 65535 * (stage["evidence"]["high"] - stage["evidence"]["low"])
    np.testing.assert_allclose(shown, np.log10(np.maximum(frame["evidence"].to_numpy(), 1e-9)), atol=2e-4)
    bench.state.cursor = 0
    assert bench.anatomy.stage == {} and "no refresh yet" in bench.anatomy.error


def test_hidden_panels_do_not_compute(trace):
    bench = Workbench(trace)
    bench.state.cursor = 30
    assert bench.anatomy.stage == {} and bench.stability.curves == {}
    bench.tabs.selected_index = list(bench.tabs.children).index(bench.anatomy)
    assert bench.anatomy.stage["step"] <= 30 and bench.stability.curves == {}


def test_stability_follows_the_brush_and_the_newest_request_wins(trace):
    panel = StabilityPanel(trace)
    assert panel.wait(60) and panel.verdict
    whole = panel.curves["within"]
    panel.state.brush = (5, 50)
    panel.state.brush = (1, 40)
    assert panel.wait(60)
    expected = curve(measure(trace, lags=12, metrics=("overlap",), layers=[panel.state.layer], steps=(1, 39), n=24))
    assert panel.curves["within"] == expected["within"].to_list() != whole
    assert len(panel.curves["within_low"]) == len(panel.curves["lag"])
    panel.state.brush = (1, 9)
    assert panel.curves == {} and panel.error == "choose a range of at least 24 steps in the run strip"


def test_timing_adds_up(trace):
    panel = SlowStepTiming(trace)
    values = np.frombuffer(panel.times["values"], np.float32).reshape(len(panel.times["groups"]), -1)
    np.testing.assert_allclose(np.nansum(values, 0)[1:], step_times(trace)["total"].to_numpy(), rtol=1e-5)


def test_one_file_export_holds_everything(trace, tmp_path):
    bench = Workbench(trace)
    text = bench.to_html(tmp_path / "bench.html").read_text(encoding="utf-8")
    assert text.count('<div id="') == 9 and "http" not in text.replace("http-equiv", "")
    assert not bench.anatomy.live and not bench.stability.live, "what was hidden is hidden again"
    assert not any(m.get("pending") for m in [*bench.run.metrics, *bench.heads.metrics]), (
        "no kernel will measure them later"
    )


@pytest.mark.parametrize("name", ["map", "selection", "run", "heads"])
def test_static_twins_draw_the_same_arrays(trace, name):
    bench = Workbench(trace).set(k=6)
    figure = getattr(bench, name).to_figure()
    figure.canvas.draw()
    axes = figure.axes
    if name == "map":
        assert len(axes[0].collections[0].get_offsets()) == len(bench.session.support.rows.ids)
    elif name == "selection":
        np.testing.assert_allclose(axes[0].lines[1].get_ydata()[1:], bench.session.now.kept[1:])
        assert len(axes[2].collections[1].get_segments()) == 6 * len(bench.session.now.ranking.steps)
    elif name == "run":
        np.testing.assert_allclose(axes[0].lines[0].get_ydata()[1:], bench.run.values()[1:])
    else:
        np.testing.assert_allclose(
            axes[0].images[0].get_array().filled(-1).T, np.nan_to_num(bench.heads.values(), nan=-1)
        )
