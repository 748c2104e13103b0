"""What-if against the recording itself, against re-runs, and against attention written out."""

import shutil
from pathlib import Path

import polars as pl
import pytest
import torch

from sentence_tokenizers import unigram
from sfi_lab import LayerReplay, Settings, SfiError, Trace, whatif
from sfi_lab.analysis import schedule
from sfi_lab.selector import select

BASE = Settings(sink=2, recent=7, k=9, t_max=12, nms_radius=2)
RUNS = {
    "sentence": BASE,
    "pinned": BASE.with_(recent_mode="pinned"),
    "next sentence": BASE.with_(fire_on="next_sentence", min_gap=3, cooldown=1),
    "groups": BASE.with_(trigger="period", period=5, layer_groups=2, recent_mode="pinned"),
    "random": BASE.with_(trigger="random", period=6, seed=4),
    "drift": BASE.with_(trigger="drift", drift_threshold=0.85, t_max=0),
    "one row": BASE.with_(prefill_window=1, lam_clip=(0.35, 0.25), exclusivity=0.0),
    "short prompt": BASE.with_(sink=6, recent=3, k=4),
    "grows into it": BASE.with_(k=60),
    "dense": Settings.dense(),
}  # fmt: skip
FORCED = "The river was high. Nobody crossed it that day; the ferry stayed.\n今天下雨。我们在家里读书。你呢？ Wait... what? Yes! Then the lamp went out."


def record(lab, prose, settings, folder, short=False, level="audit+qk"):
    ids = lab.tokenizer(prose)["input_ids"][: 12 if short else 60]
    forced = lab.tokenizer(FORCED)["input_ids"]
    return lab.generate(ids, settings, force=forced, record=level, trace=folder, record_top=20).trace


@pytest.fixture(scope="module")
def traces(tiny_lab, prose, tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("whatif") / "t"
            made[name] = record(tiny_lab, prose, RUNS[name], folder, short=name == "short prompt")
        return made[name]

    return get


def selections(trace):
    keys = ["step", "layer", "kv_head"]
    return {tuple(row[k] for k in keys): row for row in trace.selection.collect().iter_rows(named=True)}


@pytest.mark.parametrize("name", RUNS)
def test_the_recorded_settings_give_the_recording(traces, name):
    trace = traces(name)
    found = whatif(trace, trace.settings)
    assert found.kind == "exact"
    recorded = trace.steps.filter(pl.col("route") != "prefill")
    assert found.refreshes.select("step", "route", "reason", "refreshed").equals(
        recorded.select("step", "route", "reason", "refreshed")
    )
    want = selections(trace)
    assert found.selection.height == len(want)
    for row in found.selection.iter_rows(named=True):
        then = want[(row["step"], row["layer"], row["kv_head"])]
        assert row["positions"] == then["positions"], f"step {row['step']}, layer {row['layer']}, head {row['kv_head']}"
        assert row["lam"] == pytest.approx(then["lam"], abs=1e-6)
        assert (row["candidates"], row["overlap"]) == (then["candidates"], 1.0)
    both = found.steps.join(trace.support.collect(), on=["step", "layer", "kv_head"], suffix="_recorded")
    assert both.height == recorded.height * 3 * 2
    assert (both["keys_read"] == both["keys_read_recorded"]).all()
    assert (both["missed"] - both["missed_recorded"]).abs().max() < 1e-4
    assert (both["kept"] - (1 - both["missed_recorded"])).abs().max() < 1e-4


@pytest.mark.parametrize(
    "change",
    [{"lam": 0.3}, {"lam_clip": 0.9}, {"k": 4}, {"alpha": 0.9}, {"gamma": 3.0, "beta": 2.0}, {"nms_radius": 0}, {"nms_strength": 2.0},
     {"exclusivity": 2.0, "temperature": 0.3}, {"prefill_window": 3}, {"recent": 4}, {"sink": 0}, {"recent_mode": "pinned"}],
    ids=str,
)  # fmt: skip
def test_a_selectors_change_is_exact_re_selection(traces, change):
    """Against `select` on logits made here, and kept mass summed here."""
    trace, layer, head = traces("sentence"), 1, 1
    s = BASE.with_(**change)
    found = whatif(trace, s, [layer])
    assert found.kind == "exact"
    q, k, v = trace.queries(layer), trace.keys(layer), trace.values(layer)
    window = trace.window_queries(layer)
    lengths = trace.steps["keys_available"].to_list()[1:]
    positions, start_then = None, 0
    mine = {(row["step"], row["kv_head"]): row for row in found.selection.iter_rows(named=True)}
    steps = found.steps.filter(kv_head=head).sort("step").iter_rows(named=True)
    for i, (length, row, refreshed, route) in enumerate(
        zip(lengths, steps, found.refreshes["refreshed"], found.refreshes["route"], strict=True)
    ):
        own_q = q[i].view(2, 3, 8)
        end = max(s.sink, length - s.recent)
        if refreshed:
            logits = torch.einsum("hgd,thd->hgt", own_q, k[s.sink : end]) * 8**-0.5
            if i == 0 and s.prefill_window > 1:
                w = window[-(s.prefill_window - 1) :]
                rows = torch.einsum("whgd,thd->hgwt", w.view(len(w), 2, 3, 8), k[s.sink : end]) * 8**-0.5
                at = torch.arange(length - 1 - len(w), length - 1)
                rows = rows.masked_fill(torch.arange(s.sink, end)[None] > at[:, None], -torch.inf)
                logits = torch.cat([rows.flatten(1, 2), logits], 1)
            chosen = select(logits, k[s.sink : end].norm(dim=-1).T, s)
            positions, start_then = chosen.indices[head] + s.sink, end
            assert sorted(mine[(i + 1, head)]["positions"]) == positions.tolist(), f"refresh at step {i + 1}"
            assert mine[(i + 1, head)]["lam"] == pytest.approx(float(chosen.lam[head]), abs=1e-6)
        weights = (torch.einsum("gd,td->gt", own_q[head], k[:length, head]) * 8**-0.5).softmax(-1)
        start = start_then if s.recent_mode == "pinned" else end
        read = (
            sorted({*range(s.sink), *positions.tolist(), *range(start, length)})
            if route == "fast"
            else list(range(length))
        )
        kept = weights[:, read].sum(-1)
        assert row["kept"] == pytest.approx(float(kept.mean()), abs=1e-5), f"step {i + 1}"
        assert row["missed"] == pytest.approx(float((1 - kept).mean()), abs=1e-5)
        assert row["keys_read"] == len(read)
        dense = weights @ v[:length, head]
        sparse = (weights[:, read] / kept[:, None]) @ v[read, head]
        error = (sparse - dense).norm(dim=-1) / dense.norm(dim=-1)
        assert row["output_error"] == pytest.approx(float(error.mean()), abs=1e-5), f"step {i + 1}"


@pytest.mark.parametrize("name", ["gpt_oss", "gemma2"])
def test_models_with_sink_logits_or_soft_caps(lab_of, prose, tmp_path, name):
    lab = lab_of(name, "eager")
    trace = record(lab, prose, BASE, tmp_path / "t")
    found = whatif(trace, BASE)
    assert found.kind == "exact"
    both = found.steps.join(trace.support.collect(), on=["step", "layer", "kv_head"], suffix="_recorded")
    assert (both["missed"] - both["missed_recorded"]).abs().max() < 1e-4
    assert found.selection["overlap"].min() == 1.0
    if name == "gpt_oss":
        assert (both["kept"] + both["missed"]).max() < 1
    # the true output's error: sink logits keep their share on both sides
    layer = trace.qk_layers[0]
    q, k, v = trace.queries(layer), trace.keys(layer), trace.values(layer)
    scale, cap = trace.scaling(layer)
    sinks = trace.sink_logits(layer)
    row = found.steps.join(found.refreshes, on="step").filter(route="fast", kv_head=0).row(3, named=True)
    i = row["step"] - 1
    length = trace.steps["keys_available"][row["step"]]
    logits = torch.einsum("gd,td->gt", q[i, :3], k[:length, 0]) * scale
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    read = sorted(trace.support.filter(step=row["step"], layer=layer, kv_head=0).collect()["positions"][0].to_list())

    def output(at):
        e = logits[:, at].exp()
        share = 0.0 if sinks is None else sinks[:3].exp()
        return (e / (e.sum(-1) + share)[:, None]) @ v[at, 0]

    dense, sparse = output(list(range(length))), output(read)
    assert row["output_error"] == pytest.approx(
        float(((sparse - dense).norm(dim=-1) / dense.norm(dim=-1)).mean()), abs=1e-4
    )


def test_a_sentencepiece_models_schedule_is_replayed_from_its_pieces(lab_of, prose, tmp_path):
    """Its decoder drops the first space of a text, and Chinese falls apart into bytes."""
    lab = lab_of(tokenizer=unigram())
    for fire_on in ("boundary", "next_sentence"):
        settings = BASE.with_(fire_on=fire_on)
        assert (
            whatif(record(lab, prose, settings, tmp_path / fire_on, level="support+qk"), settings, [0]).kind == "exact"
        )


def test_a_trace_without_pieces_is_still_read(traces, tmp_path):
    folder = Path(shutil.copytree(traces("sentence").path, tmp_path / "old"))
    for part in (folder / "tokens").iterdir():
        pl.read_parquet(part).drop("piece").write_parquet(part)
    old = Trace.open(folder)
    assert old.tokens["piece"].null_count() == old.tokens.height
    assert whatif(old, BASE, [0]).kind == "exact"


# other refresh steps ----------------------------------------------------------------------------------------------

OTHER = {
    "t_max": {"t_max": 4},
    "no cap": {"t_max": 0},
    "period": {"trigger": "period", "period": 7},
    "never": {"trigger": "never", "t_max": 0},
    "random": {"trigger": "random", "period": 5, "seed": 9},
    "enders": {"enders": "?"},
    "next": {"fire_on": "next_sentence", "min_gap": 4},
    "groups": {"layer_groups": 2, "t_max": 5},
    "all": {"k": 1000},
}


@pytest.mark.parametrize("name", OTHER)
def test_a_changed_schedule_is_what_a_re_run_on_the_same_tokens_does(traces, tiny_lab, prose, tmp_path, name):
    s = BASE.with_(**OTHER[name])
    found = whatif(traces("sentence"), s, [1])
    again = record(tiny_lab, prose, s, tmp_path / "again", level="support")
    want = again.steps.filter(pl.col("route") != "prefill")
    moved = want["refreshed"].to_list() != traces("sentence").steps["refreshed"].to_list()[1:]
    assert found.kind == ("proxy" if moved or name == "groups" else "exact")
    assert moved or name == "no cap", "the change must change something"
    assert found.refreshes["route"].to_list() == want["route"].to_list()
    assert found.refreshes["reason"].to_list() == want["reason"].to_list()
    rows = again.support.filter(layer=1, kv_head=0).sort("step").collect()
    assert found.steps.filter(kv_head=0).sort("step")["keys_read"].to_list() == rows["keys_read"].to_list()


def test_layer_groups_are_another_schedule_even_at_the_same_steps(traces):
    assert whatif(traces("sentence"), BASE.with_(layer_groups=2), [0]).kind == "proxy"


def test_evidence_that_was_not_recorded_is_no_exact_answer(traces):
    assert whatif(traces("sentence"), BASE.with_(prefill_window=4), [0]).kind == "exact"
    assert whatif(traces("one row"), RUNS["one row"].with_(prefill_window=4), [0]).kind == "proxy"


# the replay's memory ----------------------------------------------------------------------------------------------


def test_answers_do_not_depend_on_what_was_asked_before(traces):
    """One replay asked many questions in a row against fresh ones."""
    trace = traces("sentence")
    questions = [
        BASE, BASE.with_(lam=0.4), BASE.with_(recent_mode="pinned"), BASE.with_(recent_mode="pinned", layer_groups=2),
        BASE.with_(recent_mode="pinned", t_max=3), BASE.with_(k=3), BASE.with_(recent=3), BASE.with_(sink=5, recent=3), BASE,
        BASE.with_(alpha=0.8), BASE.with_(gamma=2.0), BASE.with_(prefill_window=2), BASE.with_(enders="?"), Settings.dense(), BASE,
    ]  # fmt: skip
    kept = LayerReplay(trace, 1)
    for s in questions:
        a, b = kept.run(s), LayerReplay(trace, 1).run(s)
        assert a.kind == b.kind
        assert a.refresh_steps.tolist() == b.refresh_steps.tolist()
        assert [p.tolist() for p in a.positions] == [p.tolist() for p in b.positions], s.to_code()
        assert a.kept.tolist() == b.kept.tolist(), s.to_code()
        assert a.keys_read.tolist() == b.keys_read.tolist(), s.to_code()
        assert a.output_error.tolist() == b.output_error.tolist(), s.to_code()


def test_a_replay_without_values_keeps_no_output_error(traces):
    replay = LayerReplay(traces("sentence"), 2, output_error=False)
    out = replay.run(BASE)
    assert out.output_error is None
    assert out.kept.tolist() == LayerReplay(traces("sentence"), 2).run(BASE).kept.tolist()
    found = whatif(traces("sentence"), BASE, output_error=False)
    assert found.steps["output_error"].null_count() == found.steps.height
    assert found.summary["output_error"] is None


# use --------------------------------------------------------------------------------------------------------------


def test_progress_and_cancel(traces):
    seen = []
    whatif(traces("sentence"), BASE, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    seen.clear()
    with pytest.raises(SfiError, match="cancelled after 2 of 3 layers"):
        whatif(traces("sentence"), BASE, progress=lambda done, of: seen.append(done), cancel=lambda: len(seen) == 2)
    assert seen == [1, 2]


def test_summary_is_the_means(traces):
    found = whatif(traces("sentence"), BASE.with_(k=4), [0, 2])
    assert found.layers == (0, 2)
    assert found.summary["kept"] == pytest.approx(found.steps["kept"].mean(), abs=1e-6)
    assert found.summary["kind"] == "exact"
    assert found.summary["fast_steps"] == (found.refreshes["route"] == "fast").sum()
    assert found.summary["kept_fast"] < found.summary["kept"]
    assert found.summary["overlap"] == pytest.approx(found.selection["overlap"].mean(), abs=1e-6)
    assert 0 < found.summary["overlap"] < 1


def test_layers_that_were_not_kept_are_named(tiny_lab, prose, tmp_path):
    trace = tiny_lab.generate(
        prose[:200], BASE, 5, ignore_eos=True, record="support+qk", qk_layers=[1], trace=tmp_path / "a"
    ).trace
    with pytest.raises(SfiError, match="keeps no queries and keys of layer 0; it keeps layers 1"):
        whatif(trace, BASE, [0, 1])
    bare = tiny_lab.generate(prose[:200], BASE, 5, ignore_eos=True, record="support", trace=tmp_path / "b").trace
    with pytest.raises(SfiError, match=r"keeps no queries and keys; record with '\+qk'"):
        whatif(bare, BASE)
    with pytest.raises(SfiError, match=r"drift trigger compares queries, and this trace keeps none"):
        schedule(bare, BASE.with_(trigger="drift"))
    assert schedule(bare, BASE.with_(t_max=2)).refreshes, "schedules need no queries"


def test_nothing_is_written_and_the_trace_stays_the_same(traces):
    trace = traces("sentence")
    before = trace.steps.clone(), {p: p.stat().st_mtime_ns for p in trace.path.rglob("*")}
    whatif(trace, BASE.with_(k=2, t_max=3))
    assert trace.steps.equals(before[0])
    assert {p: p.stat().st_mtime_ns for p in trace.path.rglob("*")} == before[1]
