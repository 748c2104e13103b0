"""A session fills the hub: what is shown must be what the trace and the replay say, and small enough to send."""

import numpy as np
import polars as pl
import pytest

from sfi_lab import Trace
from sfi_lab.analysis import LayerReplay
from sfi_widgets import MEAN, Workbench, columns
from synthetic_trace import write_trace


def ids(data):
    return np.frombuffer(data["ids"], np.int32 if data["wide"] else np.uint16)


def test_support_is_the_table_of_the_chosen_head(trace, session):
    session.state.layer, session.state.kv_head = 3, 2
    table = trace.support.filter((pl.col("layer") == 3) & (pl.col("kv_head") == 2)).sort("step").collect()
    for step, positions in table.select("step", "positions").iter_rows():
        assert session.support.rows[step].tolist() == positions
    weights = np.frombuffer(session.hub.support["weights"], np.uint16)
    decoded = (weights / 65535.0) ** 2
    np.testing.assert_allclose(decoded, np.concatenate([row.to_numpy() for row in table["weights"]]), atol=2e-5)
    assert ids(session.hub.support).tolist() == table["positions"].explode().to_list()


def test_mean_over_heads_adds_up(trace, session):
    session.state.layer, session.state.kv_head = 1, MEAN
    step = 17
    rows = trace.support.filter((pl.col("layer") == 1) & (pl.col("step") == step)).collect()
    expected: dict[int, float] = {}
    for positions, weights in rows.select("positions", "weights").iter_rows():
        for p, w in zip(positions, weights, strict=True):
            expected[p] = expected.get(p, 0.0) + w / 3
    shown = session.support
    start, end = shown.rows.offsets[step], shown.rows.offsets[step + 1]
    found = dict(zip(shown.rows[step].tolist(), shown.weights[start:end].tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-6)
    assert shown.weights[start:end].tolist() == sorted(shown.weights[start:end].tolist(), reverse=True)
    assert shown.rest[step] == pytest.approx(1 - sum(expected.values()), abs=1e-5)


@pytest.mark.parametrize("head", [MEAN, 0, 2])
def test_recorded_settings_reproduce_the_recording(trace, session, head):
    session.state.kv_head = head
    now, recorded = session.now, session.recorded
    assert now.kind == "exact"
    assert now.ranking.steps.tolist() == recorded.steps.tolist()
    for refresh in range(len(recorded.steps)):
        assert now.ranking.at(refresh, 24).tolist() == recorded.at(refresh, 24).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"lam": 0.7},
        {"k": 5},
        {"nms_strength": 2.0},
        {"exclusivity": 0.0},
        {"recent": 30},
        {"t_max": 3},
        {"trigger": "period", "period": 7},
    ],
)
def test_changes_are_what_the_replay_says(trace, session, change):
    settings = trace.settings.with_(**change)
    session.state.settings = settings
    expected = LayerReplay(trace, session.state.layer).run(settings)
    assert session.now.kind == expected.kind == ("proxy" if {"t_max", "trigger"} & set(change) else "exact")
    assert session.now.ranking.steps.tolist() == expected.refresh_steps.tolist()
    np.testing.assert_allclose(session.now.kept[trace.decode_steps], expected.kept[:, 0])
    assert session.now.keys_read[trace.decode_steps].tolist() == expected.keys_read.tolist()
    for refresh, positions in enumerate(expected.positions):
        assert session.now.ranking.at(refresh, settings.k).tolist() == sorted(positions[0].tolist())
    assert np.frombuffer(session.hub.now["steps"], np.int32).tolist() == expected.refresh_steps.tolist()
    assert session.hub.k == settings.k


def test_moving_k_after_rank_all_sends_no_ids_again(trace, session):
    session.rank_all()
    sent = session.hub.now
    assert len(ids(sent)) > 3 * trace.settings.k * len(session.now.ranking.steps) // 2, "the ranking goes beyond K"
    session.state.settings = trace.settings.with_(k=40)
    assert session.hub.now is sent and session.hub.k == 40
    expected = LayerReplay(trace, session.state.layer).run(session.state.settings)
    assert session.selected_at(30).tolist() == sorted(
        expected.positions[np.searchsorted(expected.refresh_steps, 30, "right") - 1][0].tolist()
    )
    session.state.settings = trace.settings.with_(k=40, lam=0.9)
    assert session.hub.now is not sent, "another λ is another ranking"


def test_a_layer_without_queries_says_so(tmp_path):
    trace = Trace.open(write_trace(tmp_path / "plain", qk=False, steps=20))
    bench = Workbench(trace)
    assert bench.session.now is None and bench.session.hub.now == {}
    assert bench.controls.error.startswith("layer 1 was recorded without queries and keys")
    bench.set(k=3)
    assert "recorded" in repr(bench.selection)
    assert bench.text.kept() == bench.session.recorded.at(0, 24).tolist()


def test_k_beyond_all_candidates_selects_nothing(session, trace):
    session.state.settings = trace.settings.with_(k=5000)
    assert len(session.now.ranking.steps) == 0
    assert session.selected_at(30).tolist() == []
    assert session.now.mean_kept == pytest.approx(1.0, abs=1e-5)


def test_no_message_passes_two_megabytes():
    """The largest case: 2,000 steps at 131,072 positions, K = 2,048, 60 refreshes, the mean of 8 heads."""
    rng = np.random.default_rng(0)
    lists = [rng.choice(131_072, 2048, replace=False) for _ in range(60 * 8)]
    full = columns.Ranking(np.arange(60, dtype=np.int32), 8, columns.Rows.of(lists))
    from sfi_widgets.columns import cut as cut_ranking

    room = columns.BUDGET // (4 * len(lists))
    cut = columns.wire_ids(cut_ranking(full, room).rows, 131_072)
    support = 2000 * columns.LISTED * (4 + 2)
    assert len(cut["ids"]) <= columns.BUDGET
    assert len(cut["ids"]) + support < 2_000_000


def test_front_end_choices_reach_the_state_and_wrong_ones_do_not(session):
    session.hub.cursor = 7
    assert session.state.cursor == 7
    session.hub.cursor = 999
    assert session.state.cursor == session.hub.cursor == 59
    session.hub.layer = 2
    assert session.state.layer == session.hub.layer == 3
    assert "recorded layers" in session.state.error
