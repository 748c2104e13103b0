"""Other methods in the workbench: decoded again beside the recording, and their traces in the same panels."""

import pytest

from sfi_lab import Settings, Trace
from sfi_lab.methods import METHODS
from sfi_widgets import Compare, Workbench

SETTINGS = Settings(sink=2, recent=9, k=6, t_max=0, trigger="period", period=5)


@pytest.fixture
def recorded(tiny_lab, prose, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = tiny_lab.tokenizer(prose)["input_ids"][:70]
    result = tiny_lab.generate(
        ids, SETTINGS, 12, record="audit+qk", trace=tmp_path / "sfi", ignore_eos=True, progress=False
    )
    return result.trace


def test_the_panel_offers_every_method_with_its_meaning(recorded):
    panel = Workbench(recorded).decode
    assert [m["name"] for m in panel.methods] == list(METHODS)
    assert all(m["title"] and m["meaning"] for m in panel.methods)
    assert panel.method == "sfi"


@pytest.mark.parametrize("method", ["streaming", "dense", "snapkv:window=4:pool=3", "quest:page=4"])
def test_a_recorded_rerun_opens_in_the_same_panels(recorded, tiny_lab, method):
    panel = Workbench(recorded, lab=tiny_lab).decode
    panel.method, panel.record, panel.tokens = method, True, 8
    panel.start()
    assert panel.wait(30)
    assert not panel.error, panel.error
    again = Trace.open(panel.trace_path)
    assert again.meta["method"]["label"] == method
    assert again.token_ids == panel.ids
    bench = Workbench(again)
    for part in bench.panels():
        assert repr(part)
    assert bench.map.to_figure().axes
    assert method in bench.session.hub.facts["model"] and method in repr(again)
    names = [m["name"] for m in bench.run.metrics]
    assert "bytes_kept" in names and ("keys_scored" in names) == method.startswith("quest")
    assert bench.session.now.kind == ("exact" if method == "dense" else "proxy")
    assert Compare(recorded, again).to_figure().axes


def test_rectified_runs_are_recorded_without_the_keys_that_change(recorded, tiny_lab):
    panel = Workbench(recorded, lab=tiny_lab).decode
    panel.method, panel.record, panel.tokens = "sfi_rectified", True, 8
    panel.start()
    assert panel.wait(30)
    assert not panel.error, panel.error
    again = Trace.open(panel.trace_path)
    assert again.meta["record"] == "audit" and again.qk_layers == []
    assert "MB kept" in panel.summary


def test_a_budget_that_does_not_fit_is_a_sentence_in_the_panel(recorded, tiny_lab):
    panel = Workbench(recorded, lab=tiny_lab).decode
    panel.method = "sfi:budget=5"
    panel.start()
    assert panel.wait(30)
    assert "budget = 5 leaves nothing to select" in panel.error
