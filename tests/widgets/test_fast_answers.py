"""What a moved slider costs: one message back, one thread a drag, one core, and nothing computed that nobody sees."""

import threading
import time

import numpy as np
import pytest
import torch

from sfi_lab.analysis import LayerReplay
from sfi_widgets import Session, Workbench, all_layers
from sfi_widgets.one_core import one_core


def test_an_answer_is_two_messages_close_together(trace, monkeypatch):
    """The arrays first, so that a K that was dragged ahead of the kernel is never taken back for a frame."""
    bench, sent = Workbench(trace), []
    for widget in (bench.session.hub, bench.controls, bench.heads):
        name = type(widget).__name__
        monkeypatch.setattr(
            widget, "send_state", lambda key, n=name: sent.append((n, {key} if isinstance(key, str) else set(key)))
        )
    bench.controls.wanted = {"values": {**trace.settings.to_dict(), "lam": 0.5, "k": 9}, "number": 7}
    assert bench.settings.lam == 0.5 and bench.controls.answered == 7
    own = [("Controls", {"wanted"})]  # the front end's own message, which is not echoed
    assert bench.controls.trait_metadata("wanted", "echo_update") is False
    assert [m for m in sent if m[0] != "HeadNavigator"] == [
        *own,
        ("Hub", {"k", "now", "mass"}),
        ("Controls", {"values", "code", "answered", "preset"}),
    ]
    assert [m[0] for m in sent[-2:]] == ["Hub", "Controls"], "nothing is computed between the two"
    assert bench.heads.wait(60)  # its summaries are no part of the next test


def test_a_drag_starts_one_thread_and_runs_the_newest(trace, monkeypatch):
    threads, ran, shown = [], [], []

    class Counted(threading.Thread):
        def start(self):
            threads.append(self)
            super().start()

    def quick(_trace, settings, **_):
        ran.append(settings.k)
        return settings

    monkeypatch.setattr(all_layers.threading, "Thread", Counted)
    monkeypatch.setattr(all_layers, "whatif", quick)
    nothing = lambda *_: None  # noqa: E731
    runs = all_layers.AllLayers(trace, nothing, nothing, shown.append, nothing, pause=0.2)
    for k in range(1, 21):
        runs.ask(trace.settings.with_(k=k))
        time.sleep(0.005)
    assert runs.wait(20)
    assert (len(threads), ran, [s.k for s in shown]) == (1, [20], [20])
    runs.ask(trace.settings.with_(k=33))
    assert runs.wait(20) and ran == [20, 33], "after it ended, the next request runs too"


def test_a_request_while_another_runs_does_not_wait_for_it(trace, monkeypatch):
    entered, release, shown = threading.Event(), threading.Event(), []

    def stuck(_trace, settings, **_):
        if settings.k == 1:
            entered.set()
            assert release.wait(20)
        return settings

    monkeypatch.setattr(all_layers, "whatif", stuck)
    nothing = lambda *_: None  # noqa: E731
    runs = all_layers.AllLayers(trace, nothing, nothing, shown.append, nothing, pause=0.0)
    runs.ask(trace.settings.with_(k=1))
    assert entered.wait(20)
    runs.ask(trace.settings.with_(k=2))
    assert runs.wait(20) and [s.k for s in shown] == [2]
    release.set()


def test_one_core_inside_the_block_and_as_before_after_it():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_core():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), one_core():
            _ = 1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_session_asks_on_one_core_and_for_no_overlap(trace, monkeypatch):
    session, asked, original = Session(trace), [], LayerReplay.run

    def run(self, settings, overlap=True):
        asked.append((torch.get_num_threads(), overlap))
        return original(self, settings, overlap)

    monkeypatch.setattr(LayerReplay, "run", run)
    session.state.apply(lam=0.2)
    session.state.layer = 3
    assert asked and set(asked) == {(1, False)}
    assert session.replay(1).recording is session.replay(3).recording, "what the layers share is computed once"


def test_the_recordings_own_curves_are_made_once_a_layer_and_head(trace, monkeypatch):
    session, asked, original = Session(trace), [], LayerReplay.run
    monkeypatch.setattr(LayerReplay, "run", lambda *given, **named: asked.append(given[1]) or original(*given, **named))
    for lam in (0.1, 0.2, 0.3):
        session.state.apply(lam=lam)
    assert [s.lam for s in asked] == [0.1, 0.2, 0.3]
    before = session.baseline
    session.state.kv_head = -1
    assert session.baseline is not before and len(session.baseline.kept_by_head) == trace.kv_heads
    session.state.kv_head = 0
    assert session.baseline is before


@pytest.mark.parametrize("mode", ["sliding", "pinned"])
def test_windows_start_where_the_replay_reads(trace, mode):
    session = Session(trace)
    session.state.apply(recent_mode=mode, recent=9, sink=3)
    now, decoded = session.now, np.asarray(trace.decode_steps)
    available = trace.steps["keys_available"].to_numpy()[decoded]
    read = now.keys_read[decoded]
    refreshes = np.searchsorted(now.ranking.steps, decoded, side="right") - 1
    packed = np.array([len(now.ranking.rows[r]) for r in refreshes])
    fast = ~np.isin(decoded, now.ranking.steps)
    assert (read[fast] == (3 + packed + available - now.recent_start[decoded])[fast]).all()


def test_hidden_anatomy_and_compare_compute_nothing(trace, monkeypatch):
    bench = Workbench(trace)
    monkeypatch.setattr("sfi_widgets.selector_anatomy.stages", lambda *_: pytest.fail("a hidden panel computes"))
    monkeypatch.setattr("sfi_widgets.compare._side", lambda *_: pytest.fail("a hidden panel computes"))
    bench.set(lam=0.3)
    bench.state.cursor = 20
    assert bench.anatomy.stage == {} and bench.compare.a == {}
    assert bench.heads.wait(60)
