"""Rectified slow steps: the cache becomes a dense prefill's, step by step."""

import pytest
import torch

from sfi_lab import Settings, SfiError
from sfi_lab.decoder.read_prompt import ReadPrompt

SPARSE = Settings(sink=2, recent=7, k=5, t_max=0, trigger="period", period=5, nms_radius=3)
RECTIFIED = SPARSE.with_(rectify=True)


@pytest.fixture(scope="module")
def ids(tiny_lab, prose):
    return tiny_lab.tokenizer(prose)["input_ids"][:60]


def dense_cache(lab, tokens):
    return ReadPrompt.read(lab, tokens).cache.full


def largest_difference(lab, session, length):
    dense = dense_cache(lab, session.ids[:length])
    return max(
        float((mine.k[:, :length] - theirs.k).abs().max() + (mine.v[:, :length] - theirs.v).abs().max())
        for mine, theirs in zip(session.state.cache.full, dense, strict=True)
    )


def test_after_a_slow_step_keys_and_values_are_those_of_a_dense_prefill_of_the_same_tokens(tiny_lab, ids):
    session = tiny_lab.session(RECTIFIED)
    slow = []
    for step in session.stream(ids, 24, ignore_eos=True):
        if step.route == "slow":
            slow.append(step.index)
            off = largest_difference(tiny_lab, session, session.state.length)
            assert off < 2e-5, f"step {step.index} leaves keys and values {off} away from a dense prefill"
    assert len(slow) > 3


def test_only_what_fast_steps_made_since_the_last_slow_step_is_read_again(tiny_lab, ids):
    session = tiny_lab.session(RECTIFIED)
    _, run = session.prepare(ids, 24, ignore_eos=True)
    fed, begin = [], run.begin_step
    run.begin_step = lambda: fed.append(begin()) or fed[-1]
    steps, since = list(run)[1:], 0
    for step, new in zip(steps, fed, strict=True):
        expected = 1 if step.route == "fast" else 1 + since
        assert len(new) == expected, f"step {step.index} read {len(new)} positions, not {expected}"
        since = since + 1 if step.route == "fast" else 0
    assert max(map(len, fed)) == 5, "period 5: four fast steps between two slow ones"
    assert [step.positions_remade for step in steps] == [len(new) - 1 for new in fed]


def test_without_it_they_are_not(tiny_lab, ids):
    session = tiny_lab.session(SPARSE)
    session.generate(ids, 24, ignore_eos=True, progress=False)
    assert largest_difference(tiny_lab, session, session.state.length) > 1e-3


def test_a_slow_steps_logits_are_the_dense_models(tiny_lab, ids):
    seen = {}
    session = tiny_lab.session(RECTIFIED)
    result = session.generate(ids, 24, ignore_eos=True, progress=False, watch=lambda i, x: seen.__setitem__(i, x))
    for step in result.steps[1:]:
        dense = ReadPrompt.read(tiny_lab, session.ids[: len(ids) + step.index]).logits
        off = float((seen[step.index] - dense).abs().max())
        if step.route == "slow":
            assert off < 1e-4, f"slow step {step.index} is {off} away from dense"


def test_what_is_selected_is_what_a_decoder_with_a_dense_cache_would_select(tiny_lab, ids):
    """The refresh's evidence comes from the step's own query over recomputed keys."""
    session = tiny_lab.session(RECTIFIED)
    for step in session.stream(ids, 14, ignore_eos=True):
        if step.route == "slow" and step.index > 1:
            other = tiny_lab.session(SPARSE.with_(prefill_window=1))
            other.generate(session.ids[:-2], 2, force=session.ids[-2:], progress=False)
            for layer, memory in session.state.packed.items():
                assert torch.equal(memory.positions, other.state.packed[layer].positions), f"layer {layer}"


def test_a_next_turn_reads_fast_positions_again(tiny_lab, ids):
    session = tiny_lab.session(RECTIFIED)
    first = session.generate(ids, 9, ignore_eos=True, progress=False)
    second = session.generate(ids[:5], 1, ignore_eos=True, progress=False)
    fast = [step.route for step in first.steps][::-1].index("slow")  # fast steps since the last slow one
    assert fast > 0 and [step.positions_remade for step in second.steps] == [fast], "the prompt's row says so"
    assert largest_difference(tiny_lab, session, session.state.length) < 2e-5


def test_windowed_layers_take_part(lab_of, ids):
    lab = lab_of("gemma3_text", "sdpa")
    session = lab.session(RECTIFIED)
    for step in session.stream(ids, 14, ignore_eos=True):
        if step.route == "slow":
            assert largest_difference(lab, session, session.state.length) < 2e-5


def test_a_recorded_run_is_the_same_and_counts_every_step(tiny_lab, ids, tmp_path):
    plain = tiny_lab.generate(ids, RECTIFIED, 14, ignore_eos=True, progress=False)
    recorded = tiny_lab.generate(
        ids, RECTIFIED, 14, ignore_eos=True, progress=False, record="audit", trace=tmp_path / "t"
    )
    assert recorded.token_ids == plain.token_ids
    steps = recorded.trace.steps
    assert steps.height == 14
    slow = steps.filter(steps["route"] == "slow")
    assert (slow["keys_read"] == slow["keys_available"]).all()
    assert float(slow["kl"].max()) < 1e-6, "a rectified slow step's distribution is dense"
    fast = steps.filter(steps["route"] == "fast")
    assert float(fast["kl"].max()) > 1e-6


def test_what_can_not_go_together_is_said(tiny_lab, ids, tmp_path):
    with pytest.raises(SfiError, match="layer_groups = 1"):
        tiny_lab.session(RECTIFIED.with_(layer_groups=2))
    with pytest.raises(SfiError, match="rectify"):
        tiny_lab.generate(ids, RECTIFIED, 3, record="support+qk", trace=tmp_path / "t")
