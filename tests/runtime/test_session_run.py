"""A session's runs through the engine: what a person sees is what the reference loop shows."""

import logging

import pytest

from runtime_cases import FULL, moved, periodic, reasons
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings

SETTINGS = {
    "paper": Settings.paper(sink=2, recent=8, k=12, t_max=9, prefill_window=4),
    "released, pinned": Settings.released(sink=2, recent=8, k=12, recent_mode="pinned", min_gap=3),
    "random, two layer groups": Settings.paper(
        sink=2, recent=8, k=12, t_max=5, layer_groups=2, trigger="random", period=6
    ),
    "dense": Settings.dense(),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_turns_of_a_conversation_equal_the_reference(lab_of, prose, settings):
    lab = moved(lab_of("llama", **FULL["llama"]))
    seen = []
    for path in ("reference", "graph"):
        session, options = lab.session(settings), {"engine": path, "ignore_eos": True, "progress": False}
        first = session.generate(prose[:300], 30, **options)
        second = session.generate(" And then.", 12, do_sample=True, temperature=0.8, seed=3, **options)
        seen.append((first, second))
    for want, found in zip(*seen, strict=True):
        assert found.token_ids == want.token_ids and found.text == want.text
        assert reasons(found) == reasons(want)
        assert [s.keys_read for s in found.steps] == [s.keys_read for s in want.steps]
        assert max(abs(a.logprob - b.logprob) for a, b in zip(found.steps, want.steps, strict=True)) < 1e-4


def test_paths_may_change_within_a_conversation(lab_of, prose):
    lab, settings = moved(lab_of("qwen3", **FULL["qwen3"])), SETTINGS["paper"]
    texts = []
    for order in (("reference",) * 3, ("graph", "reference", "graph")):
        session = lab.session(settings)
        texts.append([session.generate(text, 8, engine=path, ignore_eos=True, progress=False).token_ids
                      for path, text in zip(order, (prose[:200], " One.", " Two."), strict=True)])  # fmt: skip
    assert texts[0] == texts[1]


def test_two_streams_at_once_do_not_disturb_each_other(lab_of, prose):
    lab, settings = moved(lab_of("llama", **FULL["llama"])), SETTINGS["paper"]
    options = {"engine": "graph", "ignore_eos": True}
    alone = [
        lab.generate(text, settings, 12, progress=False, **options).token_ids for text in (prose[:150], prose[40:220])
    ]
    pairs = zip(*(lab.stream(text, settings, 12, **options) for text in (prose[:150], prose[40:220])), strict=True)
    assert [list(ids) for ids in zip(*((a.token_id, b.token_id) for a, b in pairs), strict=True)] == alone


def test_a_session_that_lost_its_engine_keeps_its_cache(lab_of, prose):
    lab, settings = moved(lab_of("llama", **FULL["llama"])), SETTINGS["paper"]
    want = lab.session(settings)
    kept = [
        want.generate(text, 8, engine="reference", ignore_eos=True, progress=False).token_ids
        for text in (prose[:120], " On.")
    ]
    session = lab.session(settings)
    first = session.generate(prose[:120], 8, engine="graph", ignore_eos=True, progress=False)
    lab.generate(prose[50:200], settings, 5, engine="graph", progress=False)
    assert lab.engines.of(session) is None, "the idle engine should have gone to the other session"
    second = session.generate(" On.", 8, engine="graph", ignore_eos=True, progress=False)
    assert [first.token_ids, second.token_ids] == kept


def test_stop_strings_and_interrupts_leave_a_session_that_goes_on(lab_of, prose):
    lab, settings = moved(lab_of("llama", **FULL["llama"])), SETTINGS["paper"]
    session = lab.session(settings)
    stream = session.stream(prose[:150], 20, engine="graph", ignore_eos=True)
    made = [next(stream).token_id for _ in range(6)]
    stream.close()
    again = session.generate(" More.", 6, engine="graph", ignore_eos=True, progress=False)
    twin = lab.session(settings)
    stream = twin.stream(prose[:150], 20, engine="reference", ignore_eos=True)
    assert made == [next(stream).token_id for _ in range(6)]
    stream.close()
    assert again.token_ids == twin.generate(" More.", 6, engine="reference", ignore_eos=True, progress=False).token_ids


def test_which_path_runs_is_said_once_and_refusals_are_clear(lab_of, prose, caplog):
    lab = lab_of("llama", **FULL["llama"])
    lab.model.to("cpu")
    with caplog.at_level(logging.INFO, logger="sfi_lab"):
        for _ in range(2):
            lab.generate(prose[:40], periodic(), 2, progress=False)
    assert [r.message for r in caplog.records if "decodes" in r.message][:1] == [
        r.message for r in caplog.records if "decodes" in r.message
    ]
    with pytest.raises(SfiError, match=r"engine = 'fast' is not allowed; allowed: auto, reference, graph"):
        lab.generate(prose[:40], periodic(), 2, engine="fast")
    with pytest.raises(SfiError, match="recorded runs are instrumented"):
        lab.generate(prose[:40], periodic(), 2, engine="graph", record="support")
    with pytest.raises(SfiError, match="has sliding layers"):
        lab_of("qwen2").generate(prose[:40], periodic(), 2, engine="graph")
