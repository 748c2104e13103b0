"""The one-forward teacher-forced run beside the step-by-step decoder: the same logits, whatever the settings and model."""

import pytest
import torch

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.studies import Everything, Oracle, Prefix, SlowFast, forced_pass, plan_steps, window_only

BASE = Settings.paper(sink=2, k=12, recent=20, t_max=7, nms_radius=3, prefill_window=5)
VARIANTS = {
    "paper": BASE,
    "released": Settings.released(sink=2, k=12, recent=20, t_max=5, nms_radius=3, min_gap=3),
    "pinned": BASE.with_(recent_mode="pinned"),
    "layer groups": BASE.with_(layer_groups=2, trigger="period", period=3),
    "one query row": BASE.with_(prefill_window=1, trigger="random", period=4),
    "nothing to select": BASE.with_(k=4000),
    "never again": BASE.with_(trigger="never", t_max=0),
}


def ids_of(lab, prose, n):
    return lab.tokenizer(prose * 4)["input_ids"][:n]


def compared(lab, ids, settings, tokens):
    prefix = Prefix(lab, ids, window=16)
    result, stepwise = prefix.forced(settings, tokens)
    run = forced_pass(prefix, tokens, SlowFast(settings, plan_steps(prefix, tokens, settings)))
    return result, stepwise, run


@pytest.mark.parametrize("name", VARIANTS)
def test_one_forward_gives_the_decoders_logits(tiny_lab, prose, name):
    ids = ids_of(tiny_lab, prose, 130)
    result, stepwise, run = compared(tiny_lab, ids[:90], VARIANTS[name], ids[90:])
    worst = (stepwise - run.logits).abs().max(-1).values
    assert worst.max() < 2e-4, f"logits differ most ({worst.max():.2e}) at row {int(worst.argmax())}"
    assert result.keys_read_share == pytest.approx(run.read_share, abs=1e-9)
    reads = [step.keys_read for step in result.steps[1:]]
    assert reads == pytest.approx(run.keys_read.mean(1).tolist())


@pytest.mark.parametrize("model", ["gemma2", "gpt_oss", "mistral", "qwen3", "gpt_neox"])
def test_windows_softcaps_and_sink_logits_of_other_models(lab_of, prose, model):
    lab = lab_of(model, "eager" if model in ("gemma2", "gpt_oss") else "sdpa", num_hidden_layers=2)
    ids = ids_of(lab, prose, 110)
    _, stepwise, run = compared(lab, ids[:80], BASE, ids[80:])
    assert (stepwise - run.logits).abs().max() < 5e-4, f"{model}: {(stepwise - run.logits).abs().max():.2e}"


@pytest.mark.parametrize("length", [3, 16, 17, 40])
def test_short_prompts(tiny_lab, prose, length):
    ids = ids_of(tiny_lab, prose, length + 30)
    _, stepwise, run = compared(tiny_lab, ids[:length], BASE, ids[length:])
    assert (stepwise - run.logits).abs().max() < 2e-4


def test_reading_everything_is_dense(tiny_lab, prose):
    ids = ids_of(tiny_lab, prose, 120)
    prefix = Prefix(tiny_lab, ids[:90], window=16)
    dense, everything = forced_pass(prefix, ids[90:], None), forced_pass(prefix, ids[90:], Everything())
    assert (dense.logits - everything.logits).abs().max() < 1e-4
    assert everything.kept.min() > 1 - 1e-5
    assert everything.read_share == 1.0


def test_the_oracle_keeps_more_than_anything_of_its_size(tiny_lab, prose):
    ids = ids_of(tiny_lab, prose, 150)
    prefix, tokens = Prefix(tiny_lab, ids[:110], window=16), ids[110:]
    oracle = forced_pass(prefix, tokens, Oracle(2, 20, 12))
    alone = forced_pass(prefix, tokens, window_only(2, 20))
    assert set(oracle.keys_read.ravel()) == {34.0}
    assert set(alone.keys_read.ravel()) == {22.0}
    # layer 0 sees the same queries in every run, so there the order is certain at every step
    plans = plan_steps(prefix, tokens, BASE)
    chosen = forced_pass(prefix, tokens, SlowFast(BASE, plans))
    fast = [i for i, plan in enumerate(plans) if plan.route == "fast"]
    assert fast
    assert (oracle.kept[fast, 0] >= chosen.kept[fast, 0] - 1e-6).all()
    assert (chosen.kept[fast, 0] >= alone.kept[fast, 0] - 1e-6).all()


def test_a_prefix_changes_nothing(tiny_lab, prose):
    ids = ids_of(tiny_lab, prose, 100)
    prefix = Prefix(tiny_lab, ids, window=16)
    whole = tiny_lab.generate(ids, BASE, 25, ignore_eos=True, progress=False)
    for _ in range(2):  # the second run starts from the same cache: the first must not have changed it
        assert prefix.free(BASE, 25).token_ids == whole.token_ids
    with pytest.raises(SfiError, match="needs more of the prompt than was kept"):
        prefix.free(BASE.with_(prefill_window=18), 2)


def test_forced_tokens_are_what_was_fed(tiny_lab, prose):
    ids = ids_of(tiny_lab, prose, 60)
    result, logits = Prefix(tiny_lab, ids[:40], window=16).forced(Settings.dense(), ids[40:])
    assert result.token_ids == ids[40:]
    assert logits.shape == (20, tiny_lab.spec.vocab_size)
    want = torch.tensor([float(row.log_softmax(-1)[token]) for row, token in zip(logits, ids[40:], strict=True)])
    got = torch.tensor([step.logprob for step in result.steps])
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
