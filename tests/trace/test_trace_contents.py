"""What a recording holds: schema, levels, and numbers that must add up."""

import json

import polars as pl
import pytest
import torch

from sfi_lab import Settings, SfiError, Trace
from sfi_lab.trace import SCHEMA_VERSION, TABLES

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)
LEVELS = ("support", "audit", "support+qk", "audit+qk")
TOP = 8


@pytest.fixture(scope="module")
def prompt(prose):
    return prose[:300] + "今天下雨。"


@pytest.fixture(scope="module")
def recorded(tiny_lab, prompt, tmp_path_factory):
    """{level: (result, trace)}; 40 tokens are two parts of every table."""
    made = {}
    for level in LEVELS:
        folder = tmp_path_factory.mktemp("traces") / level
        result = tiny_lab.generate(prompt, SPARSE, 40, ignore_eos=True, record=level, trace=folder, record_top=TOP)
        made[level] = (result, result.trace)
    return made


@pytest.mark.parametrize("level", LEVELS)
def test_columns_and_types_are_the_schemas(recorded, level):
    _, trace = recorded[level]
    for table, schema in TABLES.items():
        frame = getattr(trace, table)
        frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
        assert dict(frame.schema) == {
            name: dtype() if isinstance(dtype, type) else dtype for name, dtype in schema.items()
        }, table
        assert frame.height > 0, table
        assert len(list((trace.path / table).iterdir())) >= (1 if table == "selection" else 2), table
    assert isinstance(trace.support, pl.LazyFrame)
    assert isinstance(trace.selection, pl.LazyFrame)


def test_the_meta_file_says_what_was_run(recorded, tiny_lab):
    result, trace = recorded["audit+qk"]
    meta = trace.meta
    assert meta["schema_version"] == SCHEMA_VERSION
    assert (meta["record"], meta["top"], meta["finished"], meta["stop_reason"]) == (
        "audit+qk",
        TOP,
        True,
        "max_new_tokens",
    )
    assert trace.settings == SPARSE
    assert meta["model"]["architecture"] == "LlamaForCausalLM"
    assert (
        meta["model"]["layers"],
        meta["model"]["query_heads"],
        meta["model"]["kv_heads"],
        meta["model"]["head_dim"],
    ) == (3, 6, 2, 8)
    assert meta["model"]["layer_kinds"] == ["full"] * 3
    assert set(meta["versions"]) == {"sfi_lab", "torch", "transformers", "python"}
    assert meta["seed"] == 0
    assert meta["prompt_tokens"] == result.prompt_tokens
    assert trace.layers == trace.qk_layers == [0, 1, 2]
    assert json.loads((trace.path / "meta.json").read_text(encoding="utf-8")) == meta


@pytest.mark.parametrize("level", LEVELS)
def test_steps_are_the_runs(recorded, level):
    result, trace = recorded[level]
    steps = trace.steps
    assert steps["step"].to_list() == list(range(40))
    assert steps["token_id"].to_list() == result.token_ids == trace.token_ids
    assert steps["route"].to_list() == [s.route for s in result.steps]
    assert steps["reason"].to_list() == ["prompt", *[s.reason for s in result.steps[1:]]]
    assert steps["refreshed"].to_list() == [s.route == "slow" for s in result.steps]
    assert steps["keys_read"].to_list()[1:] == pytest.approx([s.keys_read for s in result.steps[1:]])
    assert steps["keys_read"][0] is None
    assert steps["keys_available"].to_list() == [s.keys_available for s in result.steps]
    assert steps["position"].to_list() == [s.keys_available - 1 for s in result.steps]
    assert steps["logprob"].to_list() == pytest.approx([s.logprob for s in result.steps], abs=1e-5)
    assert trace.decode_steps == list(range(1, 40))
    times = [name for name in steps.columns if name.startswith("ms_") and name != "ms_total"]
    assert (steps.select(pl.sum_horizontal(times)).to_series() - steps["ms_total"]).abs().max() < 1e-2
    assert (steps["ms_model"] > 0).all()
    slow = steps.filter(route="slow")
    for stage in ("attention", "evidence", "prior", "fusion", "nms", "exclusivity", "topk", "pack", "record"):
        assert (slow[f"ms_{stage}"] > 0).all(), stage
    assert (steps.filter(route="fast")["ms_topk"] == 0).all()


def test_tokens_are_the_whole_text(recorded, tiny_lab, prompt):
    result, trace = recorded["support"]
    tokens = trace.tokens
    assert tokens["position"].to_list() == list(range(result.prompt_tokens + 40))
    assert tokens["role"].to_list() == ["prompt"] * result.prompt_tokens + ["generated"] * 40
    assert tokens["token_id"].to_list()[: result.prompt_tokens] == tiny_lab.tokenizer(prompt)["input_ids"]
    assert "".join(tokens["text"].to_list()[: result.prompt_tokens]) == prompt
    assert trace.text == result.text
    assert tokens["sentence"].is_sorted()
    fed = trace.steps["position"].to_list()
    assert trace.steps["query_sentence"].to_list() == [tokens["sentence"][p] for p in fed]
    assert trace.steps["sentence"].to_list() == [tokens["sentence"][p + 1] for p in fed]
    assert not tokens["special"].any()


def test_special_tokens_are_marked(tiny_lab, tmp_path):
    chat = [{"role": "user", "content": "Come in"}]
    trace = tiny_lab.generate(chat, SPARSE, 3, ignore_eos=True, record="support", trace=tmp_path / "t").trace
    assert set(trace.tokens.filter(pl.col("special"))["token_id"].to_list()) == {0}


@pytest.mark.parametrize("level", LEVELS)
def test_support_adds_up_and_stays_inside_what_was_read(recorded, level):
    _, trace = recorded[level]
    support = trace.support.collect()
    assert support.height == 39 * 3 * 2
    steps = {row["step"]: row for row in trace.steps.iter_rows(named=True)}
    selection = {(r["step"], r["layer"], r["kv_head"]): r for r in trace.selection.collect().iter_rows(named=True)}
    refreshed = 0
    for row in support.sort("step").iter_rows(named=True):
        step, where = steps[row["step"]], (row["step"], row["layer"], row["kv_head"])
        if step["route"] == "slow":
            refreshed = row["step"]
        weights = row["weights"]
        assert sum(weights) + row["rest"] == pytest.approx(1, abs=2e-3), where
        assert weights == sorted(weights, reverse=True), where
        assert len(row["positions"]) == len(set(row["positions"])) == len(weights) == min(TOP, row["keys_read"]), where
        allowed = set(range(step["position"] + 1))
        if step["route"] == "fast":
            chosen = selection[(refreshed, row["layer"], row["kv_head"])]["positions"]
            allowed = {*range(2), *chosen, *range(step["recent_start"], step["position"] + 1)}
            assert row["keys_read"] == len(allowed) == 13, where
        else:
            assert row["keys_read"] == step["keys_available"], where
        assert set(row["positions"]) <= allowed, f"{where}: {set(row['positions']) - allowed} was not read"
        assert (row["true_positions"] is None) == (row["missed"] is None) == (not level.startswith("audit"))


def test_selections_are_of_the_candidates(recorded):
    _, trace = recorded["support"]
    rows = trace.selection.collect()
    slow = trace.steps.filter(route="slow")["step"].to_list()
    assert sorted(rows["step"].unique().to_list()) == slow
    assert rows.height == len(slow) * 3 * 2
    for row in rows.iter_rows(named=True):
        available = trace.steps["keys_available"][row["step"]]
        assert (row["first_candidate"], row["candidates"]) == (2, available - 6 - 2)
        assert len(set(row["positions"])) == 5
        assert all(2 <= p < available - 6 for p in row["positions"])
        assert 0 <= row["lam"] <= 0.02
        assert 0 < row["evidence"] <= 1


@pytest.mark.parametrize("level", ["audit", "audit+qk"])
def test_the_audit_is_what_dense_attention_would_have_been(recorded, level):
    _, trace = recorded[level]
    full = trace.support.collect().join(trace.steps.select("step", "route", "position", "keys_available"), on="step")
    for row in full.iter_rows(named=True):
        true = dict(zip(row["true_positions"], row["true_weights"], strict=True))
        assert sum(true.values()) + row["true_rest"] == pytest.approx(1, abs=2e-3)
        assert len(true) == min(TOP, row["keys_available"])
        if row["route"] == "slow":
            assert row["missed"] == 0
            assert row["positions"] == row["true_positions"]
        else:
            # what was read keeps its proportions: listed weights times the kept mass are the true weights
            for position, weight in zip(row["positions"], row["weights"], strict=True):
                if position in true:
                    assert true[position] <= weight * 1.01 + 1e-3
    fast = full.filter(pl.col("route") == "fast")
    assert fast["missed"].min() >= 0
    assert fast["missed"].mean() > 0.01
    steps = trace.steps
    by_step = full.group_by("step").agg(pl.col("missed").mean()).sort("step")["missed"]
    assert (steps["missed_mass"][1:] - by_step).abs().max() < 1e-6
    assert steps["kl"][0] is None
    assert (steps["kl"][1:] >= 0).all()
    assert steps["kl"].max() > 1e-3
    assert steps["kl"][1] < 1e-6, "the first step is dense on a dense prefix"
    assert steps["top1_agrees"].dtype == pl.Boolean


def test_the_audits_dense_model_is_the_model(recorded, tiny_lab):
    """KL and agreement again, from the model's own dense logits on the run's tokens."""
    result, trace = recorded["audit"]
    ids = trace.tokens["token_id"].to_list()
    with torch.no_grad():
        dense = tiny_lab.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    run = tiny_lab.session(SPARSE)
    logits = []
    handle = tiny_lab.model.lm_head.register_forward_hook(lambda _m, _i, out: logits.append(out[0, -1].clone()))
    run.generate(ids[: result.prompt_tokens], force=result.token_ids)
    handle.remove()
    for i, row in enumerate(trace.steps.iter_rows(named=True)):
        if row["step"] == 0:
            continue
        p, q = dense[row["position"]], logits[i].log_softmax(-1)
        assert row["kl"] == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-5)
        assert row["top1_agrees"] == bool(p.argmax() == q.argmax())


def test_a_dense_run_misses_nothing(tiny_lab, prompt, tmp_path):
    trace = tiny_lab.generate(prompt, Settings.dense(), 8, ignore_eos=True, record="audit", trace=tmp_path / "t").trace
    assert trace.steps["missed_mass"].to_list()[1:] == [0] * 7
    assert trace.steps["kl"].to_list()[1:] == pytest.approx([0] * 7, abs=1e-6)
    assert all(trace.steps["top1_agrees"][1:])
    assert trace.selection.collect().height == 0


def test_queries_and_keys_are_what_attention_saw(recorded, tiny_lab):
    """Recorded weights again, from recorded queries and keys."""
    _, trace = recorded["audit+qk"]
    support = trace.support.collect()
    for layer in trace.qk_layers:
        q, k, v = trace.queries(layer), trace.keys(layer), trace.values(layer)
        assert q.shape == (39, 6, 8)
        assert k.shape == v.shape == (trace.steps["position"].max() + 1, 2, 8)
        scale, cap = trace.scaling(layer)
        assert (scale, cap, trace.sink_logits(layer)) == (8**-0.5, None, None)
        assert trace.window_queries(layer).shape == (15, 6, 8)
        for i in (0, 7, 38):
            own = trace.steps["keys_available"][i + 1]
            weights = torch.einsum("gd,td->gt", q[i, 3:], k[:own, 1]).mul(scale).softmax(-1).mean(0)
            row = support.filter(step=i + 1, layer=layer, kv_head=1).row(0, named=True)
            want = torch.tensor(row["true_weights"])
            assert (weights[row["true_positions"]] - want).abs().max() < 1e-3


def test_chosen_layers_only(tiny_lab, prompt, tmp_path):
    trace = tiny_lab.generate(
        prompt,
        SPARSE,
        5,
        ignore_eos=True,
        record="support+qk",
        trace=tmp_path / "t",
        record_layers=[2, 0],
        qk_layers=[2],
    ).trace
    assert (trace.layers, trace.qk_layers) == ([0, 2], [2])
    assert trace.support.collect()["layer"].unique().sort().to_list() == [0, 2]
    assert trace.selection.collect()["layer"].unique().sort().to_list() == [0, 2]
    trace.queries(2)
    with pytest.raises(SfiError, match="keeps no queries and keys of layer 0; it keeps layers 2"):
        trace.queries(0)


def test_off_writes_nothing(tiny_lab, prompt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tiny_lab.generate(prompt, SPARSE, 3)
    assert (result.trace, result.trace_path) == (None, None)
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_it_goes_to_a_folder_of_its_own(tiny_lab, prompt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b = (tiny_lab.generate(prompt, SPARSE, 3, record="support") for _ in range(2))
    assert a.trace_path != b.trace_path
    assert a.trace_path.parent.name == "traces"
    assert a.trace.info()["new_tokens"] == 3


def test_a_second_turns_trace_holds_the_whole_conversation(tiny_lab, prompt, tmp_path):
    session = tiny_lab.session(SPARSE)
    session.generate(prompt, 10, ignore_eos=True)
    result = session.generate(" Then the door closed.", 10, ignore_eos=True, record="audit+qk", trace=tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    assert trace.meta["prompt_tokens"] == result.prompt_tokens
    assert trace.tokens.height == result.prompt_tokens + 10
    assert trace.keys(1).shape[0] == result.prompt_tokens + 9
    assert trace.steps["keys_available"][0] == result.prompt_tokens
    assert trace.steps["kl"].max() > 0


def test_info_counts(recorded):
    result, trace = recorded["support"]
    info = trace.info()
    assert (info["prompt_tokens"], info["new_tokens"]) == (result.prompt_tokens, 40)
    assert (info["slow_steps"], info["reasons"]) == (result.slow_steps, result.reasons)
    assert info["fast_steps"] == 39 - result.slow_steps
    assert info["keys_read_share"] == pytest.approx(result.keys_read_share, abs=1e-4)
    assert info["bytes"] == sum(f.stat().st_size for f in trace.path.rglob("*") if f.is_file())
    assert "Settings.paper(" in repr(trace)
