"""The selector's stages as frames, and what they say on selections made for it."""

import numpy as np
import pytest
import torch

from made_traces import made_trace, sentences_of, stable
from sfi_lab.analysis import LayerReplay, ages, passages, refresh_anatomy, selected_text, selection_anatomy, stages
from sfi_lab.analysis.anatomy import coverage, duplication
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings

PROMPT, STEPS, HEADS = 90, 24, 2
SETTINGS = Settings.paper(sink=2, k=10, recent=12, t_max=6, nms_radius=3, prefill_window=1)


@pytest.fixture
def replay(tmp_path):
    g = torch.Generator().manual_seed(5)
    keys = torch.randn(PROMPT + STEPS, HEADS, 6, generator=g)
    qk = {
        0: (torch.randn(STEPS, HEADS * 2, 6, generator=g) * 2, keys, torch.randn(PROMPT + STEPS, HEADS, 6, generator=g))
    }
    trace = made_trace(
        tmp_path / "t",
        stable(STEPS, rows=HEADS),
        sentences_of([7], STEPS),
        heads=HEADS,
        prompt=PROMPT,
        qk=qk,
        settings=SETTINGS,
    )
    return LayerReplay(trace, 0)


def test_stages_of_one_refresh_follow_the_equations(replay):
    frame = stages(replay, 3)
    j = PROMPT + 3 - 2 - 12
    assert frame.height == HEADS * j
    assert frame["position"].to_list() == list(range(2, 2 + j)) * HEADS
    for _, head in frame.group_by("kv_head"):
        assert head["evidence"].sum() == pytest.approx(1, abs=1e-5)
        assert head["prior"].sum() == pytest.approx(1, abs=1e-5)
        lam = ((head["fused"] - head["evidence"]) / (head["prior"] - head["evidence"])).median()
        assert 0 <= lam <= 0.02 + 1e-4
        np.testing.assert_allclose(head["log_score"], np.log(head["fused"] + 1e-8), rtol=1e-4)
        assert (head["suppressed"] <= head["log_score"] + 1e-6).all(), "NMS can only hold back"
        assert (head["exclusive"] <= head["suppressed"] + 1e-6).all(), "exclusivity can only hold back"
        chosen = head.drop_nulls("rank").sort("rank")
        assert chosen["rank"].to_list() == list(range(10))
        assert chosen["exclusive"].is_sorted(descending=True)
        assert head["rank_before_nms"].drop_nulls().len() == 10
        best = head.sort("log_score", descending=True).head(10)["position"]
        assert set(best) == set(head.drop_nulls("rank_before_nms")["position"])


def test_stages_take_other_settings_and_refuse_what_is_not_there(replay):
    assert stages(replay, 3, SETTINGS.with_(k=4), heads=[1])["rank"].drop_nulls().len() == 4
    with pytest.raises(SfiError, match="step 99 is no decode step"):
        stages(replay, 99)
    with pytest.raises(SfiError, match="KV head 2 is out of range; allowed: 0 to 1"):
        stages(replay, 3, heads=[2])


def test_stages_switched_off_move_nothing(replay):
    frame = refresh_anatomy(replay, SETTINGS.with_(nms_strength=0.0, exclusivity=0.0))
    assert frame["displaced_by_nms"].to_list() == [0.0] * frame.height
    assert frame["displaced_by_exclusivity"].to_list() == [0.0] * frame.height
    assert frame["coverage_before_nms"].to_list() == frame["coverage"].to_list()
    assert frame["duplication_before"].to_list() == frame["duplication"].to_list()


def test_strong_stages_move_something_and_in_their_direction(replay):
    frame = refresh_anatomy(replay, SETTINGS.with_(nms_strength=3.0, exclusivity=5.0))
    assert frame["displaced_by_nms"].mean() > 0.1
    assert frame["coverage"].mean() >= frame["coverage_before_nms"].mean() - 0.05
    assert frame["duplication"].mean() < frame["duplication_before"].mean(), "exclusivity must make heads share less"
    assert frame["step"].unique().len() == frame.height // HEADS
    first = frame.filter(frame["step"] == frame["step"].min())
    assert first["churn"].null_count() == HEADS
    assert frame.filter(frame["step"] > frame["step"].min())["churn"].null_count() == 0


def test_nothing_to_select_gives_an_empty_frame_with_its_columns(replay):
    frame = refresh_anatomy(replay, SETTINGS.with_(k=5000))
    assert frame.height == 0
    assert "duplication_before" in frame.columns


def selection_rows(chosen):
    """chosen: step -> positions by head."""
    return [
        {"step": step, "layer": 0, "kv_head": h, "lam": 0.02, "first_candidate": 2, "candidates": 70, "positions": list(p), "evidence": 0.5}
        for step, heads in chosen.items() for h, p in enumerate(heads)
    ]  # fmt: skip


def test_recorded_selections_by_hand(tmp_path):
    rows = selection_rows({1: ([10, 11, 12, 13], [10, 11, 12, 13]), 5: ([13, 12, 40, 41], [50, 51, 52, 53])})
    trace = made_trace(tmp_path, stable(8, rows=2), sentences_of([4], 8), heads=2, prompt=90, selection=rows)
    frame = selection_anatomy(trace).sort("step", "kv_head")
    assert frame["churn"].to_list() == [None, None, 0.5, 1.0]
    assert frame["duplication"].to_list() == [0.5, 0.5, 0.0, 0.0], (
        "two heads that copy each other hold half as many positions"
    )
    assert frame["median_age"].to_list() == [91 - 1 - 11.5, 91 - 1 - 11.5, 95 - 1 - 26.5, 95 - 1 - 51.5]
    assert ages(trace, 0)["age"].to_list()[:4] == [80, 79, 78, 77]


def test_coverage_and_duplication_by_hand():
    assert coverage(np.arange(64), 64) == 1.0
    assert coverage(np.array([0, 1, 2, 3]), 640) == 1 / 64
    assert coverage(np.array([0, 2]), 4) == 0.5
    assert duplication([np.arange(5)] * 4) == 0.75
    assert duplication([np.arange(5), np.arange(5, 10)]) == 0.0


def test_selected_text_and_passages(tmp_path):
    trace = made_trace(tmp_path, stable(4), sentences_of([9], 4), prompt=30)
    assert selected_text(trace, [5, 3])["text"].to_list() == [" w5", " w3"]
    frame = passages(trace, [9, 3, 4, 6], gap=2)
    assert frame["text"].to_list() == [" w3 w4 w5 w6", " w9"]
    assert frame["count"].to_list() == [3, 1]
    assert passages(trace, []).height == 0
    with pytest.raises(SfiError, match="positions must be from 0 to"):
        selected_text(trace, [1000])
