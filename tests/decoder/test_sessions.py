"""Conversations, interrupts, abandoned and interleaved streams, and the model in its owner's hands meanwhile."""

import gc
import threading

import pytest
import torch
from transformers import AttentionInterface

from sfi_lab import Settings, SfiError, Trace

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)
PROMPT = "The river was high. Nobody crossed it that day."
NEXT = " Then the door closed."


@pytest.fixture(autouse=True)
def model_is_left_as_it_was(tiny_lab):
    before = set(AttentionInterface().keys())
    yield
    assert tiny_lab.model.config._attn_implementation == "sdpa"
    assert set(AttentionInterface().keys()) == before


def own_tokens(lab, n=12):
    ids = torch.tensor([lab.tokenizer(NEXT)["input_ids"]])
    return lab.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0].tolist()


# turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "ids"])
def test_a_next_turn_from_the_cache_is_a_fresh_run_on_everything(tiny_lab, kind):
    turn = NEXT if kind == "text" else tiny_lab.tokenizer(NEXT)["input_ids"]
    session = tiny_lab.session(Settings.dense())
    first = session.generate(PROMPT, 9, ignore_eos=True)
    cached = session.state.length
    assert cached == first.prompt_tokens + 8, "the last token made was never fed"
    second = session.generate(turn, 9, ignore_eos=True)
    everything = tiny_lab.tokenizer(PROMPT)["input_ids"] + first.token_ids + tiny_lab.tokenizer(NEXT)["input_ids"]
    assert second.prompt_tokens == len(everything)
    fresh = tiny_lab.generate(everything, Settings.dense(), 9, ignore_eos=True)
    assert second.token_ids == fresh.token_ids
    for a, b in zip(second.steps, fresh.steps, strict=True):
        assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
        assert a.sentence == b.sentence


def test_a_sparse_next_turn_starts_with_a_slow_step_and_nothing_of_the_old_selection(tiny_lab):
    session = tiny_lab.session(SPARSE)
    session.generate(PROMPT, 9, ignore_eos=True)
    second = session.generate(NEXT, 9, ignore_eos=True)
    assert [s.route for s in second.steps[:2]] == ["prefill", "slow"]
    assert second.steps[1].reason == "first"
    assert second.steps[2].route == "fast"


def test_a_chat_goes_on_from_its_cache(tiny_lab):
    session = tiny_lab.session(Settings.dense())
    first = session.generate([{"role": "user", "content": "Come in"}], 8, ignore_eos=True)
    kept = []
    truncate = session.state.cache.truncate
    session.state.cache.truncate = lambda n: (kept.append(n), truncate(n))
    second = session.generate([{"role": "user", "content": "You are late"}], 8, ignore_eos=True)
    messages = [
        {"role": "user", "content": "Come in"},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "You are late"},
    ]
    fresh = tiny_lab.generate(messages, Settings.dense(), 8, ignore_eos=True)
    assert second.prompt_tokens == fresh.prompt_tokens
    assert second.token_ids == fresh.token_ids
    assert kept[0] >= first.prompt_tokens, "the first turn was read again"


def test_the_real_models_chat_goes_on(real_lab):
    session = real_lab.session(Settings.dense())
    messages = [{"role": "user", "content": "My name is Ada."}]
    first = session.generate(messages, 10)
    cached = session.state.length
    session.state.cache.full[0].append = counted(session.state.cache.full[0].append)
    ask = {"role": "user", "content": "What is my name?"}
    answer = session.generate([ask], 5)
    fresh = real_lab.generate([*messages, {"role": "assistant", "content": first.text}, ask], Settings.dense(), 5)
    assert (answer.prompt_tokens, answer.token_ids) == (fresh.prompt_tokens, fresh.token_ids)
    assert session.state.cache.full[0].append.tokens < cached, "only the new turn was read"


def counted(append):
    def wrapper(k, v):
        wrapper.tokens += k.shape[1]
        append(k, v)

    wrapper.tokens = 0
    return wrapper


def test_a_conversation_that_outgrows_the_context_says_so(tiny_lab):
    session = tiny_lab.session(SPARSE)
    session.generate([5 + i % 300 for i in range(500)], 12, ignore_eos=True)
    with pytest.raises(SfiError, match=r"the prompt has \d+ tokens, the model's context 512"):
        session.generate(NEXT, 5)
    assert session.state.length <= 512


def test_a_bad_turn_leaves_the_conversation_as_it_was(tiny_lab, tmp_path):
    session = tiny_lab.session(Settings.dense())
    session.generate(PROMPT, 5, ignore_eos=True)
    ids, length = list(session.ids), session.state.length
    for bad in (
        {"prompt": ""},
        {"prompt": NEXT, "num_beams": 2},
        {"prompt": NEXT, "record": "support", "trace_budget": 1, "trace": tmp_path / "x"},
    ):
        with pytest.raises(SfiError):
            session.generate(**bad)
        assert (session.ids, session.state.length) == (ids, length)
    assert not (tmp_path / "x").exists()


# interrupts -------------------------------------------------------------------------------------------------------


class CtrlC:
    """Raises KeyboardInterrupt in the n-th forward from now, inside layer 1."""

    def __init__(self, lab, forward):
        self.left = forward
        self.handle = lab.model.model.layers[1].self_attn.q_proj.register_forward_hook(self)

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            self.handle.remove()
            raise KeyboardInterrupt


@pytest.mark.parametrize("forward", [1, 2, 8], ids=["in the prompt", "in the first step", "later"])
@pytest.mark.parametrize("record", ["off", "audit+qk"])
def test_an_interrupt_keeps_what_was_made(tiny_lab, forward, record, tmp_path):
    whole = tiny_lab.generate(PROMPT, SPARSE, 20, ignore_eos=True)
    session = tiny_lab.session(SPARSE)
    # the audit's own forward counts too: from the second step on there are two a step
    CtrlC(tiny_lab, forward)
    result = session.generate(PROMPT, 20, ignore_eos=True, record=record, trace=tmp_path / "t")
    made = {("off", 1): 0, ("off", 2): 1, ("off", 8): 7, ("audit+qk", 1): 0, ("audit+qk", 2): 1}.get(
        (record, forward), 4
    )
    assert result.stop_reason == "interrupted"
    assert result.steps == whole.steps[:made]
    assert result.text == tiny_lab.tokenizer.decode(result.token_ids)
    if record != "off" and made:
        trace = Trace.open(tmp_path / "t")
        assert trace.meta["stop_reason"] == "interrupted"
        assert trace.token_ids == result.token_ids
        assert trace.support.collect()["step"].max() == (made - 1 or None)
        assert trace.keys(0).shape[0] >= result.prompt_tokens + made - 1
        if made > 1:
            assert trace.queries(0).shape[0] == made - 1
        assert trace.info()["new_tokens"] == made
    elif record != "off":
        with pytest.raises(SfiError, match="no finished step"):
            Trace.open(tmp_path / "t")
    lengths = {cache.length for cache in session.state.cache.full}
    assert len(lengths) == 1, f"layers of different lengths: {lengths}"
    after = session.generate(NEXT, 6, ignore_eos=True)
    fresh = tiny_lab.generate(session.ids[:-6], Settings.dense(), 1, ignore_eos=True)
    assert after.steps[0].logprob == pytest.approx(fresh.steps[0].logprob, abs=2e-1)
    assert after.prompt_tokens == len(session.ids) - 6


def test_an_interrupted_dense_conversation_goes_on_exactly(tiny_lab):
    session = tiny_lab.session(Settings.dense())
    CtrlC(tiny_lab, 5)
    session.generate(PROMPT, 20, ignore_eos=True)
    second = session.generate(NEXT, 6, ignore_eos=True)
    fresh = tiny_lab.generate(session.ids[:-6], Settings.dense(), 6, ignore_eos=True)
    assert second.token_ids == fresh.token_ids


def test_an_error_inside_the_model_comes_out_and_leaves_nothing_behind(tiny_lab, tmp_path):
    def fail(*_):
        raise RuntimeError("layer failed")

    handle = tiny_lab.model.model.layers[2].mlp.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="layer failed"):
        tiny_lab.generate(PROMPT, SPARSE, 5, record="support+qk", trace=tmp_path / "t")
    handle.remove()
    assert tiny_lab.generate(PROMPT, SPARSE, 5).steps


# streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_abandoned_midway_leaves_the_model_clean(tiny_lab, tmp_path):
    before = own_tokens(tiny_lab)
    stream = tiny_lab.stream(PROMPT, SPARSE, 20, ignore_eos=True, record="support", trace=tmp_path / "t")
    for _ in range(6):
        next(stream)
    assert tiny_lab.model.config._attn_implementation != "sdpa"
    stream.close()
    assert tiny_lab.model.config._attn_implementation == "sdpa"
    assert own_tokens(tiny_lab) == before
    trace = Trace.open(tmp_path / "t")
    assert (trace.steps.height, trace.meta["stop_reason"]) == (6, "interrupted")
    dropped = tiny_lab.stream(PROMPT, SPARSE, 20, ignore_eos=True)
    next(dropped)
    del dropped
    gc.collect()
    assert tiny_lab.model.config._attn_implementation == "sdpa"


def test_a_stream_that_was_never_started_holds_nothing(tiny_lab):
    session = tiny_lab.session(SPARSE)
    session.stream(PROMPT, 5)
    assert tiny_lab.model.config._attn_implementation == "sdpa"


def test_interleaved_streams_do_not_disturb_each_other(tiny_lab):
    other = SPARSE.with_(recent_mode="pinned", trigger="period", period=3)
    alone = [
        list(tiny_lab.stream(PROMPT, SPARSE, 15, ignore_eos=True)),
        list(tiny_lab.stream(NEXT + PROMPT, other, 11, ignore_eos=True)),
    ]
    a, b = (
        tiny_lab.stream(PROMPT, SPARSE, 15, ignore_eos=True),
        tiny_lab.stream(NEXT + PROMPT, other, 11, ignore_eos=True),
    )
    got = [[], []]
    for turn in "aabbabaabbbababbabbabaaaaaab":
        step = next(a if turn == "a" else b, None)
        if step is not None:
            got[turn == "b"].append(step)
    got[0] += list(a)
    got[1] += list(b)
    assert got == alone


def test_runs_in_threads_take_turns(tiny_lab):
    alone = tiny_lab.generate(PROMPT, SPARSE, 12, ignore_eos=True).steps
    own = own_tokens(tiny_lab)
    results, failures = [], []

    def work(which):
        try:
            for _ in range(3):
                if which == "run":
                    results.append(tiny_lab.generate(PROMPT, SPARSE, 12, ignore_eos=True).steps == alone)
                else:
                    results.append(own_tokens(tiny_lab) == own)
        except Exception as error:  # a thread's error would be lost
            failures.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in ("run", "run", "own")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert results == [True] * 9


@pytest.mark.parametrize("batch", [1, 2])
def test_the_owners_own_generate_during_a_stream_is_unaffected(tiny_lab, batch):
    ids = torch.tensor([tiny_lab.tokenizer(NEXT)["input_ids"]] * batch)
    if batch == 2:
        ids[1] = ids[1].flip(0)
    mask = torch.ones_like(ids)
    mask[-1, :2] = 0 if batch == 2 else 1  # left padding

    def own():
        return tiny_lab.model.generate(
            ids, attention_mask=mask, max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=0
        )

    want = own()
    steps = list(tiny_lab.stream(PROMPT, SPARSE, 10, ignore_eos=True))
    got = []
    for step in tiny_lab.stream(PROMPT, SPARSE, 10, ignore_eos=True):
        got.append(step)
        if step.index in (0, 1, 5):
            assert torch.equal(own(), want), f"after step {step.index} ({step.route})"
    assert got == steps


def test_a_stream_overtaken_by_a_later_turn_stops_and_spoils_nothing(tiny_lab):
    session = tiny_lab.session(SPARSE)
    stream = session.stream("Come in, the door is open.", 20, ignore_eos=True)
    next(stream)
    after = session.generate("And then?", 6, ignore_eos=True)
    with pytest.raises(SfiError, match="a later turn of this session began"):
        next(stream)
    more = session.generate("And now?", 6, ignore_eos=True)
    fresh = tiny_lab.session(SPARSE)
    fresh.generate(session.ids[: after.prompt_tokens], 6, ignore_eos=True)
    assert fresh.generate("And now?", 6, ignore_eos=True).token_ids == more.token_ids
