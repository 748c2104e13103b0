"""Methods with a rule of their own, in the decoder: dense where nothing is left out, and traces that say what was read."""

from typing import ClassVar

import polars as pl
import pytest
import torch

from sfi_lab import Settings
from sfi_lab.methods import Method, PromptLayer, Rule, parse_method

SETTINGS = Settings(sink=2, recent=5, k=13)  # B = 20
BUDGET, PROMPT, NEW, LAYERS = 20, 60, 23, 3
LABELS = [
    "streaming",
    "snapkv:window=6",
    "pyramidkv:window=6",
    "tova",
    "tova:heads=group",
    "h2o",
    "knorm:skip_layers=1",
    "knorm:skip_layers=0:continue_in_decode=true",
    "quest:page=4:dense_layers=1",
    "oracle",
]


class Watched(Method):
    """Another method whose rule's answers are noted."""

    name = "watched"
    inner: ClassVar[Method]
    notes: ClassVar[list]

    def settings(self, base):
        return self.inner.settings(base)

    def rule(self, settings, spec):
        return WatchedRule(self.inner.rule(settings, spec), self.notes)


def watched(label):
    return type("Watched", (Watched,), {"inner": parse_method(label), "notes": []})()


class WatchedRule(Rule):
    def __init__(self, inner, notes):
        self.inner, self.notes = inner, notes
        self.prompt_queries, self.accumulates = inner.prompt_queries, inner.accumulates

    def prompt(self, layer, seen):
        self.notes.append(("prompt", layer, seen))
        self.inner.prompt(layer, seen)

    def read(self, layer, q, k, arguments):
        positions = self.inner.read(layer, q, k, arguments)
        everything = torch.arange(k.shape[1]).expand(k.shape[0], -1)
        self.notes.append(("read", layer, (everything if positions is None else positions).tolist()))
        return positions


for _name in ("attended", "chosen", "stored", "extra_bytes", "scored", "recent_start"):
    setattr(WatchedRule, _name, lambda self, *given, _name=_name: getattr(self.inner, _name)(*given))


@pytest.fixture(scope="module")
def prompt_ids(tiny_lab, prose):
    return tiny_lab.tokenizer(prose)["input_ids"][:PROMPT]


def watch(lab, ids, label, new=NEW, **options):
    method = watched(label)
    return lab.generate(ids, SETTINGS, new, ignore_eos=True, method=method, **options), method.notes


@pytest.fixture(scope="module")
def dense(tiny_lab, prompt_ids):
    return tiny_lab.generate(prompt_ids, SETTINGS, NEW, ignore_eos=True, method="dense")


def reads_by_step(notes):
    """{(step, layer): [KV head][positions]}, steps counted from 1 as the trace does."""
    count, reads = {}, {}
    for kind, layer, value in notes:
        if kind == "read":
            count[layer] = count.get(layer, 0) + 1
            reads[count[layer], layer] = value
    return reads


@pytest.mark.parametrize("label", LABELS)
def test_with_room_for_everything_a_method_is_dense(tiny_lab, prompt_ids, dense, label):
    result = tiny_lab.generate(prompt_ids, SETTINGS.with_(k=200), NEW, ignore_eos=True, method=label)
    assert result.token_ids == dense.token_ids, label
    assert [s.logprob for s in result.steps] == pytest.approx([s.logprob for s in dense.steps], abs=1e-5), label
    assert result.keys_read_share == 1.0, label


@pytest.mark.parametrize("label", LABELS)
def test_less_room_reads_less_and_says_other_things(tiny_lab, prompt_ids, dense, label):
    result = tiny_lab.generate(prompt_ids, SETTINGS, NEW, force=dense.token_ids, method=label)
    assert result.keys_read_share < 1.0
    assert result.method == label.replace("true", "True")
    assert [s.logprob for s in result.steps[1:]] != [s.logprob for s in dense.steps[1:]]
    assert result.steps[0].logprob == dense.steps[0].logprob, "the prompt is read densely by every method"


def keys_read(label, layer, step):
    """Positions that a layer reads at a step (1 is the first after the prompt), from the rule's definition."""
    name = label.split(":")[0]
    length = PROMPT + step
    if name in ("streaming", "h2o", "oracle") or "continue" in label:
        return BUDGET
    if name == "tova":
        return BUDGET + 1
    if name == "snapkv":
        return BUDGET + step
    if name == "pyramidkv":
        return (33, 20, 7)[layer] + step  # 14 beside the window: 27.3, 14, 0.7
    if name == "knorm":
        return length if layer < 1 else BUDGET + step
    return length if layer < 1 else BUDGET - 4 + (length - 1) % 4 + 1  # quest


@pytest.mark.parametrize("label", LABELS)
def test_a_recording_says_what_the_rule_read_and_chose(tiny_lab, prompt_ids, label, tmp_path):
    result, notes = watch(tiny_lab, prompt_ids, label, record="support", trace=tmp_path / "t")
    reads, trace = reads_by_step(notes), result.trace
    assert len(reads) == LAYERS * (NEW - 1)
    support = trace.support.collect()
    assert support.height == LAYERS * 2 * (NEW - 1)
    for row in support.iter_rows(named=True):
        where = f"{label}, step {row['step']}, layer {row['layer']}, KV head {row['kv_head']}"
        allowed = reads[row["step"], row["layer"]][row["kv_head"]]
        assert row["keys_read"] == len(allowed) == keys_read(label, row["layer"], row["step"]), where
        assert set(row["positions"]) <= set(allowed), where
        assert sum(row["weights"]) + row["rest"] == pytest.approx(1.0, abs=5e-3), where
    steps = trace.steps.filter(pl.col("step") > 0)
    for row in steps.iter_rows(named=True):
        want = sum(keys_read(label, layer, row["step"]) for layer in range(LAYERS)) / LAYERS
        assert row["keys_read"] == pytest.approx(want), f"{label}, step {row['step']}"
        assert row["keys_available"] == PROMPT + row["step"]
        for layer in range(LAYERS):
            for head in reads[row["step"], layer]:
                assert set(range(row["recent_start"], row["position"] + 1)) <= set(head), f"{label}: recent_start"
    selection = trace.selection.collect()
    for row in selection.iter_rows(named=True):
        allowed = reads[row["step"], row["layer"]][row["kv_head"]]
        assert set(row["positions"]) <= set(allowed), f"{label}: chosen at step {row['step']} and not read"
        assert row["lam"] is None
    once = label.startswith(("snapkv", "pyramidkv")) or label == "knorm:skip_layers=1"
    steps_with_choice = [] if label == "streaming" else [1] if once else list(range(1, NEW))
    assert sorted(set(selection["step"])) == steps_with_choice


@pytest.mark.parametrize(
    ("label", "reads"),
    [
        ("streaming", lambda step: 12),
        ("h2o", lambda step: 12),
        ("oracle", lambda step: 12),
        ("knorm:skip_layers=0:continue_in_decode=true", lambda step: 12),
        ("tova", lambda step: 13),
        ("snapkv", lambda step: 12 + step),
        ("pyramidkv", lambda step: 12 + step),
        ("knorm:skip_layers=0", lambda step: 12 + step),
        ("quest:page=5:dense_layers=0", lambda step: 5 + (PROMPT + step - 1) % 5 + 1),  # two pages, 6 to 10
    ],
)
def test_a_budget_is_all_one_needs_to_give(tiny_lab, prompt_ids, label, reads):
    """Under the paper's settings, whose recent window alone is longer than the text."""
    result = tiny_lab.generate(prompt_ids, Settings.paper(), 9, ignore_eos=True, method=f"{label}:budget=12")
    assert [step.keys_read for step in result.steps[1:]] == [reads(step) for step in range(1, 9)], label


def test_the_prompt_is_told_as_it_was_read(tiny_lab, prompt_ids):
    """Queries of the prompt's end, keys of the prompt alone, and attention that adds up to one a query."""
    for label, rows in (("snapkv:window=6", 6), ("tova", 1), ("h2o", 0)):
        _, notes = watch(tiny_lab, prompt_ids, label, new=2)
        told = {layer: seen for kind, layer, seen in notes if kind == "prompt"}
        assert list(told) == [0, 1, 2], f"{label}: each layer once"
        for layer, seen in told.items():
            assert isinstance(seen, PromptLayer)
            assert seen.k.shape == (2, PROMPT, 8) and seen.v.shape == (2, PROMPT, 8)
            assert seen.queries.shape[2] == rows, f"{label}, layer {layer}"
            if label == "h2o":
                assert seen.received.shape == (2, 3, PROMPT)
                assert torch.allclose(seen.received.sum(-1), torch.full((2, 3), float(PROMPT)), atol=1e-3)
            else:
                assert seen.received is None
                assert seen.queries.shape == (2, 3, rows, 8)


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])
def test_softcaps_sink_logits_and_windowed_layers(lab_of, family):
    """Gemma caps its logits, gpt-oss has sink logits; both have a layer with a window of its own that no rule is asked about."""
    lab = lab_of(family, "eager")
    assert lab.spec.layer_kinds == ("sliding", "full")
    ids = list(range(3, 43))
    dense = lab.generate(ids, SETTINGS, 8, ignore_eos=True, method="dense")
    for label in LABELS:
        label = label.replace("layers=1", "layers=0")
        wide = lab.generate(ids, SETTINGS.with_(k=200), 8, ignore_eos=True, method=label)
        assert wide.token_ids == dense.token_ids, label
        result, notes = watch(lab, ids, label, new=5)
        assert {layer for _, layer, _ in notes} == {1}, label
        last = len(reads_by_step(notes)[4, 1][0])
        assert result.steps[-1].keys_read == last < len(ids) + 4, label


def test_a_new_turn_starts_the_rule_anew(tiny_lab, prompt_ids):
    """The second turn's rule is told of everything read so far, the answer to the first included."""
    for label in LABELS:
        method = watched(label)
        session = tiny_lab.session(SETTINGS, method=method)
        session.generate(prompt_ids, 5, ignore_eos=True)
        method.notes.clear()
        session.generate([7, 8, 9], 4, ignore_eos=True)
        told = [seen.k.shape[1] for kind, _, seen in method.notes if kind == "prompt"]
        assert told == [PROMPT + 5 + 3] * LAYERS, label
        assert all(head[-1] == PROMPT + 8 for head in reads_by_step(method.notes)[1, 2]), label


def test_a_prompt_of_one_token(tiny_lab):
    for label in LABELS:
        result = tiny_lab.generate([5], SETTINGS, 24, ignore_eos=True, method=label)
        assert len(result.steps) == 24, label
