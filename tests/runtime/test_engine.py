"""The engine against the reference decoder: the same tokens, routes and reasons, alone and in batches."""

import pytest
import torch

from runtime_cases import DEVICE, FULL, engine, moved, periodic, prompts, reasons
from sfi_lab.errors import SfiError
from sfi_lab.runtime import Sampling
from sfi_lab.runtime.engine import Engine
from sfi_lab.settings import Settings

gpu = pytest.mark.skipif(DEVICE == "cpu", reason="captured steps need a CUDA device")


def reference(lab, prompt, settings, new):
    return lab.generate(prompt, settings, new, ignore_eos=True, progress=False, engine="reference")


@pytest.mark.parametrize("path", ["plain", "fused"])
@pytest.mark.parametrize("name", FULL)
def test_a_batch_of_unequal_lengths_gives_what_the_reference_gives_each(lab_of, name, path):
    lab, settings = moved(lab_of(name, **FULL[name])), periodic()
    texts = prompts(lab, (70, 41, 9))
    found = engine(lab, settings, 3, path=path).generate(texts, 26)
    for b, text in enumerate(texts):
        want = reference(lab, text, settings, 26)
        assert found.tokens[b] == want.token_ids, f"sequence {b} of {len(text)} tokens"
        assert found.reasons[b] == reasons(want), f"sequence {b} of {len(text)} tokens"
    assert "period" in found.reasons[0] and "" in found.reasons[0] and "nothing_to_select" in found.reasons[2]


def test_the_sparse_path_is_really_taken(lab_of):
    lab, text = moved(lab_of("llama", **FULL["llama"])), None
    text = prompts(lab, (90,))
    few, all_ = periodic(k=1, recent=1, sink=0, t_max=0, period=1000), Settings.dense()
    sparse, dense = engine(lab, few, 1).generate(text, 20), engine(lab, all_, 1).generate(text, 20)
    assert sparse.reasons[0][2:] == [""] * 18
    assert sparse.tokens[0] != dense.tokens[0], "two of ninety keys read, and yet the dense tokens"
    assert dense.tokens[0] == reference(lab, text[0], all_, 20).token_ids


def test_pinned_window_and_t_max(lab_of):
    lab = moved(lab_of("qwen3", **FULL["qwen3"]))
    settings = periodic(recent_mode="pinned", trigger="never", t_max=6)
    text = prompts(lab, (50,))
    found, want = engine(lab, settings, 1).generate(text, 24), reference(lab, text[0], settings, 24)
    assert (found.tokens[0], found.reasons[0]) == (want.token_ids, reasons(want))
    assert found.reasons[0].count("t_max") == 3


def test_a_sequence_ends_with_its_eos_and_the_others_go_on(lab_of):
    lab, settings = moved(lab_of("llama", **FULL["llama"])), periodic()
    texts = prompts(lab, (60, 33))
    free = engine(lab, settings, 2).generate(texts, 18)
    eos = free.tokens[0][5]
    stop = Engine(lab.model, lab.spec, settings, 2, 128, eos_ids=[eos]).generate(texts, 18)
    for b in range(2):
        end = free.tokens[b].index(eos) + 1 if eos in free.tokens[b] else 18
        assert stop.tokens[b] == free.tokens[b][:end]


def test_drawn_tokens_repeat_with_their_seed(lab_of):
    lab, texts = moved(lab_of("llama", **FULL["llama"])), None
    texts = prompts(lab, (40, 20))

    def drawn(seed, **fields):
        sampling = Sampling(seed=seed, **fields)
        return Engine(lab.model, lab.spec, periodic(), 2, 128, sampling=sampling).generate(texts, 12).tokens

    assert drawn(1) == drawn(1) != drawn(2)
    greedy = engine(lab, periodic(), 2).generate(texts, 12).tokens
    assert drawn(1, top_k=1) == drawn(5, temperature=0.01) == drawn(3, top_p=1e-6) == greedy


def test_settings_that_no_rhythm_change_may_touch_are_refused(lab_of):
    made = engine(moved(lab_of("llama", **FULL["llama"])), periodic(), 1)
    with pytest.raises(SfiError, match=r"k can't change between steps; allowed: t_max, period, min_gap, cooldown"):
        made.change_rhythm(k=3)


def test_a_new_rhythm_holds_from_the_next_run_on(lab_of):
    lab = moved(lab_of("llama", **FULL["llama"]))
    made, text = engine(lab, periodic(), 1), prompts(lab, (60,))
    made.generate(text, 4)
    made.change_rhythm(period=3)
    found = made.generate(text, 14)
    assert found.reasons[0] == reasons(reference(lab, text[0], periodic(period=3), 14))


def test_memory_that_is_not_there_is_refused_with_what_would_fit(lab_of, monkeypatch):
    lab = lab_of("llama", **FULL["llama"])
    monkeypatch.setattr("sfi_lab.runtime.engine.free_bytes", lambda device: 3_000_000)
    with pytest.raises(
        SfiError, match=r"batch of 64 with 512 positions each needs .* 3\.0 MB are free; what fits: a batch of \d+ at"
    ):
        Engine(lab.model, lab.spec, periodic(), 64, 512)


def test_more_than_an_engine_holds_is_refused(lab_of):
    lab = moved(lab_of("llama", **FULL["llama"]))
    made = engine(lab, periodic(), 1, 64)
    with pytest.raises(SfiError, match=r"would reach 79 positions; this engine holds 64"):
        made.generate(prompts(lab, (60,)), 20)
    with pytest.raises(SfiError, match=r"decodes 1 prompts"):
        made.generate(prompts(lab, (5, 5)), 2)


@gpu
@pytest.mark.parametrize("overlap", [True, False])
def test_captured_steps_give_what_uncaptured_ones_give(lab_of, overlap):
    lab = moved(lab_of("qwen3", **FULL["qwen3"]))
    texts = prompts(lab, (90, 41))
    plain = engine(lab, periodic(), 2, 192, capture=False).generate(texts, 40)
    for pdl in (True, False):
        found = engine(lab, periodic(), 2, 192, overlap=overlap, pdl=pdl).generate(texts, 40)
        assert found.tokens == plain.tokens and found.reasons == plain.reasons, f"pdl {pdl}"


@gpu
def test_bfloat16_layers_in_few_launches_agree_with_the_modules(lab_of):
    lab = moved(lab_of("qwen3", head_dim=64, hidden_size=256, intermediate_size=512, num_hidden_layers=4))
    lab.model.to(torch.bfloat16)
    text = prompts(lab, (200, 130))
    logits = []
    for path in ("plain", "fused"):
        made = engine(lab, periodic(k=32, recent=32), 2, 256, path=path)
        made.prepare()
        made.start(torch.stack([made.read(b, ids) for b, ids in enumerate(text)]), text)
        made.wait()
        logits.append(made.step("dense").float().clone())
    error = (logits[0] - logits[1]).norm() / logits[0].norm()
    assert error < 0.02, f"relative difference {error:.4f}"
