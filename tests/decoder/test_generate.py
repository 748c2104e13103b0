"""What goes into a run and how it ends: prompts, sampling, ends of text, stop strings, forced tokens."""

import dataclasses

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from sfi_lab import Settings, SfiError

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)
PROMPT = "The river was high. Nobody crossed it that day."


def test_text_ids_and_chat_are_prompts(tiny_lab):
    ids = tiny_lab.tokenizer(PROMPT)["input_ids"]
    text = tiny_lab.generate(PROMPT, SPARSE, 12, ignore_eos=True)
    assert text.steps == tiny_lab.generate(ids, SPARSE, 12, ignore_eos=True).steps
    assert text.steps == tiny_lab.generate(torch.tensor(ids), SPARSE, 12, ignore_eos=True).steps
    assert text.prompt_tokens == len(ids)
    chat = [{"role": "user", "content": PROMPT}]
    rendered = tiny_lab.tokenizer(f"<user>{PROMPT}<|end|><assistant>")["input_ids"]
    assert (
        tiny_lab.generate(chat, SPARSE, 12, ignore_eos=True).steps
        == tiny_lab.generate(rendered, SPARSE, 12, ignore_eos=True).steps
    )


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "prompt is empty"),
        (" \n", "prompt is empty"),
        ([], "prompt is empty"),
        ([3, 420], "token id 420 is outside the vocabulary; allowed: 0 to 419"),
        ([3, -1], "token id -1 is outside"),
        (["a"], "text, chat messages or token ids"),
        (7, "text, chat messages or token ids"),
        (None, "text, chat messages or token ids"),
        ([{"role": "user"}], "needs 'role' and 'content'"),
        ([3] * 513, "the prompt has 513 tokens, the model's context 512"),
    ],
)
def test_bad_prompts_are_named_before_the_first_step(tiny_lab, prompt, message):
    with pytest.raises(SfiError, match=message):
        tiny_lab.stream(prompt, SPARSE, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens = 0 is not allowed; allowed: a whole number ≥ 1"),
        ({"max_new_tokens": True}, "max_new_tokens = True"),
        ({"max_new_tokens": "5"}, "max_new_tokens = '5'"),
        ({"temprature": 0.7}, "unknown argument 'temprature'"),
        ({"to_dict": 0.7}, "unknown argument 'to_dict'"),
        ({"num_beams": 3}, "num_beams=3 is not supported"),
        ({"do_sample": True, "temperature": -1.0}, "temperature"),
        ({"do_sample": True, "top_p": 7.0}, "top_p"),
        ({"temperature": 0.7, "top_p": 0.9}, "temperature, top_p: decoding is greedy.*do_sample=True"),
        ({"record": "support", "qk_layers": [0]}, r"qk_layers: record = 'support' keeps no queries"),
        ({"stop": ""}, "stop string"),
        ({"stop": ["a", ""]}, "stop string"),
        ({"stop": [3]}, "stop string"),
        ({"record": "all"}, "record = 'all' is not known; allowed: off, support, audit, support\\+qk, audit\\+qk"),
        ({"record": "support", "record_layers": [3]}, r"record_layers = \[3\] is not allowed; allowed: .* 0 to 2"),
        ({"record": "support+qk", "record_layers": [1], "qk_layers": [0]}, r"qk_layers = \[0\] is not allowed"),
        ({"record": "support", "record_top": 0}, "record_top = 0 is not allowed"),
        ({"force": [3, 999]}, "from 0 to 419"),
        ({"force": [3] * 600}, "force takes up to"),
        ({"force": ["a"]}, "force takes"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_bad_options_are_named_before_the_first_step(tiny_lab, options, message, tmp_path):
    with pytest.raises(SfiError, match=message):
        tiny_lab.stream(PROMPT, SPARSE, **{"max_new_tokens": 5, "trace": tmp_path / "t", **options})
    assert not (tmp_path / "t").exists(), "nothing is written for a run that can't be"


# sampling ---------------------------------------------------------------------------------------------------------


def test_the_seed_decides(tiny_lab):
    draw = {"do_sample": True, "temperature": 1.3, "ignore_eos": True}
    a, b = (tiny_lab.generate(PROMPT, SPARSE, 20, seed=7, **draw) for _ in range(2))
    c = tiny_lab.generate(PROMPT, SPARSE, 20, seed=8, **draw)
    d = tiny_lab.generate(PROMPT, SPARSE.with_(seed=7), 20, **draw)
    assert a.token_ids == b.token_ids == d.token_ids != c.token_ids
    torch.manual_seed(123)
    before = torch.rand(1)
    torch.manual_seed(123)
    tiny_lab.generate(PROMPT, SPARSE, 5, seed=7, **draw)
    assert torch.equal(torch.rand(1), before), "the global generator is left alone"


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": 3},
        {"top_k": 0, "top_p": 0.3},
        {"top_k": 0, "min_p": 0.4},
        {"temperature": 0.2, "top_k": 2},
        {"top_k": 0, "typical_p": 0.2},
    ],
    ids=str,
)
def test_draws_stay_in_the_support_of_transformers_own_warpers(tiny_lab, fields):
    """200 first tokens drawn; the support is what the model's own generate keeps finite."""
    ids = torch.tensor([tiny_lab.tokenizer(PROMPT)["input_ids"]])
    own = tiny_lab.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=True, output_scores=True,
        return_dict_in_generate=True, pad_token_id=0, **fields,
    ).scores[0][0]  # fmt: skip
    support = set(torch.isfinite(own).nonzero()[:, 0].tolist())
    session = tiny_lab.session(Settings.dense())
    drawn = set()
    for seed in range(60):
        session.ids, _ = [], session.state.cache.truncate(0)
        drawn.add(session.generate(ids[0], 1, seed=seed, do_sample=True, **fields).token_ids[0])
    assert drawn <= support, f"{drawn - support} outside"
    assert len(drawn) >= min(2, len(support))


def test_greedy_is_not_changed_by_a_models_sampling_defaults(tiny_lab, monkeypatch):
    monkeypatch.setattr(
        tiny_lab.model, "generation_config", GenerationConfig(do_sample=True, temperature=9.0, eos_token_id=0)
    )
    a, b = (tiny_lab.generate(PROMPT, SPARSE, 10, ignore_eos=True, seed=seed).token_ids for seed in (0, 1))
    assert a == b


def test_processors_and_their_own_are_applied(tiny_lab):
    plain = tiny_lab.generate(PROMPT, SPARSE, 10, ignore_eos=True)

    class Ban(LogitsProcessor):
        def __call__(self, input_ids, scores):
            scores[:, plain.token_ids[0]] = -torch.inf
            return scores

    banned = tiny_lab.generate(PROMPT, SPARSE, 10, ignore_eos=True, logits_processor=LogitsProcessorList([Ban()]))
    assert plain.token_ids[0] not in banned.token_ids
    same = tiny_lab.generate(PROMPT, SPARSE, 10, ignore_eos=True, suppress_tokens=[plain.token_ids[0]])
    assert same.token_ids == banned.token_ids
    given = GenerationConfig(suppress_tokens=[plain.token_ids[0]])
    assert tiny_lab.generate(PROMPT, SPARSE, 10, ignore_eos=True, generation_config=given).token_ids == banned.token_ids
    assert banned.steps[0].logprob < plain.steps[0].logprob, "logprob is the model's own, before processors"


def test_repetition_penalty_equals_generates(tiny_lab):
    ids = torch.tensor([tiny_lab.tokenizer(PROMPT)["input_ids"]])
    own = tiny_lab.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=15, do_sample=False,
                                  repetition_penalty=1.5, eos_token_id=None, pad_token_id=0)[0, ids.shape[1] :]  # fmt: skip
    got = tiny_lab.generate(PROMPT, Settings.dense(), 15, repetition_penalty=1.5, ignore_eos=True)
    assert got.token_ids == own.tolist()


# how a run ends ---------------------------------------------------------------------------------------------------


def free_run(lab, n=20):
    return lab.generate(PROMPT, SPARSE, n, ignore_eos=True)


def first_new(ids, start=3):
    """A token id's first appearance at or after `start`."""
    return next(i for i in range(start, len(ids)) if ids[i] not in ids[:i])


@pytest.mark.parametrize("way", ["model", "config", "field"])
def test_every_end_of_text_ends_it(tiny_lab, way, monkeypatch):
    ids = free_run(tiny_lab).token_ids
    at = first_new(ids)
    ends = [419, ids[at]]
    options = {}
    if way == "config":
        options["generation_config"] = GenerationConfig(eos_token_id=ends)
    elif way == "field":
        options["eos_token_id"] = ends
    else:
        monkeypatch.setattr(tiny_lab, "spec", dataclasses.replace(tiny_lab.spec, eos_ids=tuple(ends)))
    result = tiny_lab.generate(PROMPT, SPARSE, 20, **options)
    assert result.stop_reason == "eos"
    assert result.token_ids == ids[: at + 1], "the end token is among the ids"
    assert result.text == tiny_lab.tokenizer.decode(ids[:at]), "and not in the text"


def test_both_ends_of_the_real_model(real_lab):
    assert len(real_lab.spec.eos_ids) == 2
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    result = real_lab.generate(chat, Settings.dense(), 14)
    assert result.stop_reason == "eos"
    assert result.token_ids[-1] in real_lab.spec.eos_ids
    assert "<|im_end|>" not in result.text


def test_min_new_tokens_holds_the_end_back(tiny_lab):
    ids = free_run(tiny_lab).token_ids
    at = first_new(ids)
    result = tiny_lab.generate(PROMPT, SPARSE, 20, eos_token_id=ids[at], min_new_tokens=at + 4)
    assert len(result.token_ids) >= at + 4
    assert ids[at] not in result.token_ids[: at + 3]


def test_max_new_tokens_and_the_context_end_it(tiny_lab):
    result = free_run(tiny_lab, 7)
    assert (len(result.steps), result.stop_reason) == (7, "max_new_tokens")
    long = [5 + i % 300 for i in range(508)]
    result = tiny_lab.generate(long, SPARSE, 50, ignore_eos=True)
    assert result.stop_reason == "context"
    assert len(result.steps) == 5, "positions 508 to 511 are fed, and the last makes one more token"
    assert tiny_lab.generate(long[:100] * 5 + long[:12], SPARSE, 50, ignore_eos=True).stop_reason == "context"


def test_max_new_tokens_of_a_given_config_counts(tiny_lab):
    config = GenerationConfig(max_new_tokens=4)
    assert len(tiny_lab.session(SPARSE).generate(PROMPT, generation_config=config, ignore_eos=True).steps) == 4
    assert len(tiny_lab.generate(PROMPT, SPARSE, 6, generation_config=config, ignore_eos=True).steps) == 6


@pytest.mark.parametrize("offset", range(4))
def test_stop_strings_cut_where_they_begin_also_across_tokens(tiny_lab, offset):
    whole = free_run(tiny_lab, 24)
    text = whole.text
    stop = text[9 + offset : 15 + offset]  # begins and ends anywhere inside tokens
    assert text.find(stop) == 9 + offset
    for given in (
        {"stop": stop},
        {"stop": ["never there", stop]},
        {"stop_strings": stop},
        {"stop_strings": [stop], "stop": "never there"},
    ):
        streamed = []
        session = tiny_lab.session(SPARSE)
        for step in session.stream(PROMPT, 24, ignore_eos=True, **given):
            streamed.append(step.text)
        assert "".join(streamed) == text[: 9 + offset], f"{given}: what was streamed"
        result = tiny_lab.generate(PROMPT, SPARSE, 24, ignore_eos=True, **given)
        assert result.text == text[: 9 + offset], f"{given}: the result's text"
        assert result.stop_reason == "stop_string"
        assert result.token_ids == whole.token_ids[: len(result.token_ids)]
        assert len(result.steps) < 24


def test_a_beginning_of_a_stop_string_that_goes_on_differently_is_given_in_the_end(tiny_lab):
    whole = free_run(tiny_lab, 12)
    result = tiny_lab.generate(PROMPT, SPARSE, 12, ignore_eos=True, stop=whole.text[-3:] + "and more")
    assert result.text == whole.text
    assert "".join(step.text for step in result.steps) == whole.text


# teacher forcing --------------------------------------------------------------------------------------------------


def test_forced_tokens_get_the_models_own_log_probabilities(tiny_lab):
    prompt = tiny_lab.tokenizer(PROMPT)["input_ids"]
    forced = [5, 0, 300, 17, 0, 9]  # the end of text among them ends nothing
    result = tiny_lab.generate(prompt, Settings.dense(), force=forced)
    assert result.token_ids == forced
    assert result.stop_reason == "forced"
    with torch.no_grad():
        logits = tiny_lab.model(torch.tensor([prompt + forced])).logits[0].log_softmax(-1)
    for i, step in enumerate(result.steps):
        assert step.logprob == pytest.approx(float(logits[len(prompt) - 1 + i, forced[i]]), abs=1e-4)
    sparse = tiny_lab.generate(prompt, SPARSE, force=forced)
    assert sparse.token_ids == forced
    assert {step.route for step in sparse.steps} == {"prefill", "slow", "fast"}


def test_forcing_the_own_choice_changes_nothing(tiny_lab):
    free = free_run(tiny_lab, 15)
    assert tiny_lab.generate(PROMPT, SPARSE, force=free.token_ids).steps == free.steps
