"""Panels: stable reprs that state facts, controls that answer what the front end asks, and a run that streams."""

import itertools

import pytest

from sfi_lab import Settings, SfiError
from sfi_lab.settings import FIELDS
from sfi_widgets import Controls, DecodeAgain, SelectionPanel, SupportMap, TextView, Workbench
from sfi_widgets.controls import stops


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


@pytest.mark.parametrize("panel", [SupportMap, SelectionPanel, TextView, Controls, DecodeAgain])
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
    groups = Controls(trace).spec["groups"]
    items = [item for group in groups for item in group["items"]]
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
