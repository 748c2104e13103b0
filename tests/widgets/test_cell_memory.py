"""A cell that is run again finds its workbench as it was left: in a real kernel, and with a stand-in for the cell."""

import gc

import pytest
from jupyter_client.manager import start_new_kernel

from sfi_lab import Settings, Trace
from sfi_widgets import Workbench, memory
from sfi_widgets.memory import NAME, Cell
from synthetic_trace import write_trace
from test_panels import Streaming


class Notebook:
    """Says which cell runs, as a kernel does."""

    def __init__(self, monkeypatch):
        self.variables, self.runs = {}, 0
        monkeypatch.setattr(Cell, "now", classmethod(lambda _cls: self.cell))
        self.cell = None

    def run(self, key):
        self.runs += 1
        self.cell = Cell(key, f"request {self.runs}", self.variables)


@pytest.fixture
def notebook(monkeypatch):
    return Notebook(monkeypatch)


def moved(bench):
    bench.set(k=7)
    bench.state.layer, bench.state.kv_head, bench.state.among = 1, -1, (0, 2)
    bench.state.cursor, bench.state.brush, bench.state.span = 33, (10, 50), (20, 200)
    return bench


CHOICES = ("settings", "layer", "kv_head", "among", "cursor", "brush", "span")


def test_the_same_cell_finds_everything_again(notebook, trace):
    notebook.run("a")
    old = moved(Workbench(trace))
    old.run.metric, old.heads.metric, old.timing.bandwidth = "keys_read", "now_keys", 2.0
    old.compare.pin(Settings.released(k=11))
    old.tabs.selected_index = 2
    notebook.run("a")
    new = Workbench(Trace.open(trace.path))  # the cell opens it anew
    for name in CHOICES:
        assert getattr(new.state, name) == getattr(old.state, name), name
    assert (new.run.metric, new.heads.metric, new.timing.bandwidth) == ("keys_read", "now_keys", 2.0)
    assert new.compare.pinned and new.compare.a_settings == Settings.released(k=11)
    assert new.tabs.selected_index == 2 and new.anatomy.live and new.anatomy.stage
    assert new.session.now.settings.k == 7
    new.state.cursor = 5
    assert old.state.cursor == 33, "taken over, not shared"
    notebook.run("a")
    assert Workbench(trace).state.cursor == 5, "the newest one counts"


def test_another_cell_and_another_recording_start_afresh(notebook, trace, tmp_path):
    notebook.run("a")
    kept = moved(Workbench(trace))
    notebook.run("b")
    assert Workbench(trace).settings == trace.settings
    other = Trace.open(write_trace(tmp_path / "other", steps=20))
    notebook.run("a")
    assert Workbench(other).settings == other.settings
    notebook.run("a")
    assert Workbench(trace).settings == kept.settings, "the other recording did not push it out"


def test_two_in_one_cell_keep_their_places(notebook, trace):
    notebook.run("a")
    kept = [Workbench(trace).set(k=5), Workbench(trace).set(k=9)]
    notebook.run("a")
    again = [Workbench(trace), Workbench(trace)]
    assert [bench.settings.k for bench in again] == [5, 9] == [bench.settings.k for bench in kept]


def test_fresh_and_state_come_first(notebook, trace):
    notebook.run("a")
    kept = moved(Workbench(trace))
    notebook.run("b")
    elsewhere = Workbench(trace).set(k=3)
    notebook.run("a")
    given = Workbench(trace, state=elsewhere)
    assert given.settings.k == 3
    notebook.run("a")
    fresh = Workbench(trace, fresh=True)
    assert fresh.settings == trace.settings and fresh.state.cursor == 1
    notebook.run("a")
    assert Workbench(trace).settings == trace.settings, "fresh is what the cell remembers from now on"
    assert kept.settings.k == 7


def test_a_recording_made_anew_at_the_same_place_starts_afresh(notebook, trace):
    notebook.run("a")
    kept = moved(Workbench(trace))
    again = Trace(trace.path, {**trace.meta, "created": "2030-01-01"})
    notebook.run("a")
    assert Workbench(again).settings == trace.settings != kept.settings


def test_nothing_is_kept_alive_and_nothing_outside_the_notebook(notebook, trace):
    notebook.run("a")
    _kept = moved(Workbench(trace))
    assert set(notebook.variables) == {NAME}
    places = notebook.variables[NAME]
    assert [ref().settings.k for ref in places._kept.valuerefs()] == [7]
    (place,) = places._kept
    places._kept[place] = held = type("Held", (), {})()
    del held
    gc.collect()
    assert not list(places._kept), "a weak note: what nobody else holds is forgotten"
    notebook.variables.clear()  # %reset
    notebook.run("a")
    assert Workbench(trace).settings == trace.settings


def test_what_is_heavy_does_not_pile_up(notebook, trace):
    notebook.run("a")
    old = Workbench(trace).set(k=7)
    assert old.heads.wait(60) and old.session._replays and set(old.heads.all_layers._replays) == {1, 3}
    made = dict(old.heads.all_layers._replays)
    notebook.run("a")
    new = Workbench(trace)
    assert not old.session._replays and not old.heads.all_layers._replays, (
        "ipywidgets keeps the old one, without its weights"
    )
    assert new.heads.wait(60) and all(new.heads.all_layers._replays[layer] is made[layer] for layer in made)
    kept = new.session.now.mean_kept
    assert old.set(k=9).session.now.mean_kept != kept, "the old one still answers where it is still shown"
    assert old.heads.wait(60) and old.heads.summary.startswith("current settings, 2 layers")
    assert new.settings.k == 7


def test_a_new_run_decoded_before_is_still_there(notebook, trace):
    notebook.run("a")
    old = Workbench(trace, lab=Streaming("synthetic", [*trace.token_ids[:5], 7, 8]))
    old.decode.tokens = 7
    old.decode.start()
    assert old.decode.wait(20)
    notebook.run("a")
    new = Workbench(trace)
    assert new.decode.ids == old.decode.ids and new.decode.summary == old.decode.summary and not new.decode.running
    assert new.compare.tokens["first"] == 5 and len(new.decode.steps) == 7


def test_outside_a_notebook_every_workbench_is_fresh(trace):
    assert Cell.now() is None
    moved(Workbench(trace))
    assert Workbench(trace).settings == trace.settings


def test_in_a_real_kernel(trace):
    """The kernel alone, no front end: requests that name their cell, as JupyterLab's do."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:

        def run(code, cell=""):
            content = {"code": code, "silent": False, "store_history": True, "user_expressions": {"s": "said"},
                       "allow_stdin": False, "stop_on_error": True}  # fmt: skip
            request = client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
            client.shell_channel.send(request)
            reply = client.get_shell_msg(timeout=60)
            while reply["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                reply = client.get_shell_msg(timeout=60)
            assert reply["content"]["status"] == "ok", reply["content"].get("traceback")
            return reply["content"]["user_expressions"]["s"]["data"]["text/plain"]

        make = f"bench = Workbench({str(trace.path)!r}); said = (bench.settings.k, bench.state.cursor)"
        assert run("from sfi_widgets import Workbench; said = 0") == "0"
        assert run(make, "one") == "(24, 1)"
        run("bench.set(k=5); bench.state.cursor = 12; said = 0", "two")
        assert run(make, "three") == "(24, 1)", "another cell"
        assert run(make, "one") == "(5, 12)", "the same cell again"
        assert run(make) == "(24, 1)", "a request that names no cell"
        assert run(f"said = {memory.NAME} is not None", "four") == "True"
        assert run("%reset -f\nsaid = 1\nfrom sfi_widgets import Workbench", "five") == "1"
        assert run(make, "one") == "(24, 1)", "%reset forgets"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
