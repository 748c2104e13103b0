"""Methods that are settings of the slow-fast decoder, and StreamingLLM, against the literal decoder and a literal rule."""

import pytest
import torch

from literal_decoder import literal_decode
from sfi_lab import Settings
from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods import parse_method
from sfi_lab.methods.streaming import SinkAndRecent

BASE = Settings(sink=2, recent=9, k=6, t_max=5, nms_radius=3, prefill_window=4)
NEW = 20


@pytest.mark.parametrize("label", ["sfi", "sfi_pinned", "interval:every=4", "drift:threshold=0.3", "dense"])
def test_every_step_reads_and_writes_what_the_literal_decoder_does(tiny_lab, prose, label):
    ids = tiny_lab.tokenizer(prose)["input_ids"][:60]
    method = parse_method(label)
    settings = method.settings(BASE)
    logits = []
    run = tiny_lab.generate(
        ids, BASE, NEW, method, ignore_eos=True, progress=False, watch=lambda _i, x: logits.append(x.clone())
    )
    plans = [(s.route, s.route == "slow" and s.reason != "nothing_to_select", None) for s in run.steps[1:]]
    tokens, first, steps = literal_decode(tiny_lab, ids, settings, plans)
    assert run.token_ids == tokens
    torch.testing.assert_close(logits[0], first, rtol=1e-4, atol=1e-4)
    for i, (step, (want, read, _, _)) in enumerate(zip(run.steps[1:], steps, strict=True)):
        off = float((logits[i + 1] - want).abs().max())
        assert off < 1e-4, f"step {step.index} is {off} away from the literal decoder"
        sizes = [len(head) for heads in read.values() for head in heads]
        assert step.keys_read == pytest.approx(sum(sizes) / len(sizes)), f"step {step.index}"
    if label == "dense":
        assert all(step.reason == "nothing_to_select" for step in run.steps[1:])
    elif label.startswith("interval"):
        assert [s.index for s in run.steps[1:] if s.route == "slow"] == list(range(1, NEW, 4))
    else:
        assert {s.route for s in run.steps[1:]} == {"slow", "fast"}


@pytest.mark.parametrize(("sink", "recent"), [(0, 1), (2, 5), (4, 12)])
def test_streaming_reads_the_first_and_the_newest(sink, recent):
    rule = SinkAndRecent(sink, recent)
    for length in range(1, 40):
        k = torch.zeros(3, length, 4)
        found = rule.read(0, k[:, :1], k, AttentionArguments(1.0))
        want = [i for i in range(length) if i < sink or i >= length - recent]
        if found is None:
            assert want == list(range(length)), f"length {length}: all were read, not {want}"
        else:
            assert found.tolist() == [want] * 3, f"length {length}"
        assert rule.stored(0, length) == len(want)
