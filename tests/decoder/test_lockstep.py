"""Runs in lock step: each gets what it would get alone, whatever the others' lengths, settings and endings."""

import pytest
import torch

from sfi_lab import Settings, SfiError
from sfi_lab.decoder.batch import Job, generate_together
from sfi_lab.decoder.read_prompt import ReadPrompt

SPARSE = Settings(sink=2, recent=7, k=5, t_max=0, trigger="period", period=4, nms_radius=3)


@pytest.fixture(scope="module")
def ids(tiny_lab, prose):
    return tiny_lab.tokenizer(prose)["input_ids"]


def jobs(ids):
    return [
        Job(ids[:60], SPARSE, 9),
        Job(ids[:17], SPARSE, 14, "streaming"),
        Job(ids[10:101], SPARSE.with_(trigger="sentence"), 5),
        Job(ids[:33], SPARSE, 14, "sfi_rectified"),
        Job(ids[:80], SPARSE, 7, "dense"),
        Job(ids[:40], SPARSE, 11, "drift:threshold=0.2"),
    ]


def alone(lab, job, **options):
    return lab.session(job.settings, job.method).generate(
        job.prompt, job.max_new_tokens, progress=False, **job.options, **options
    )


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_moe"])
def test_a_batch_of_unequal_runs_gives_what_each_gives_alone(lab_of, ids, family):
    extra = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 24} if family == "qwen3_moe" else {}
    lab = lab_of(family, "sdpa", **extra)
    together = generate_together(lab, jobs(ids))
    for job, result in zip(jobs(ids), together, strict=True):
        single = alone(lab, job)
        assert result.token_ids == single.token_ids, job.method
        assert [s.route for s in result.steps] == [s.route for s in single.steps]
        assert [s.keys_read for s in result.steps] == [s.keys_read for s in single.steps]
        assert [s.bytes_kept for s in result.steps] == [s.bytes_kept for s in single.steps]
        for a, b in zip(result.steps, single.steps, strict=True):
            assert abs(a.logprob - b.logprob) < 1e-4
        assert result.stop_reason == single.stop_reason


def test_logits_of_a_batch_are_those_of_each_alone(tiny_lab, ids):
    seen = {}

    def watching(name):
        return lambda i, logits: seen.setdefault(name, []).append(logits.clone())

    given = [Job(ids[:60], SPARSE, 6), Job(ids[:25], SPARSE, 9)]
    generate_together(
        tiny_lab,
        [
            Job(j.prompt, j.settings, j.max_new_tokens, options={"watch": watching(("all", i))})
            for i, j in enumerate(given)
        ],
    )
    for i, job in enumerate(given):
        alone(tiny_lab, job, watch=watching(("one", i)))
        off = (torch.stack(seen["all", i]) - torch.stack(seen["one", i])).abs().max()
        assert float(off) < 1e-4, f"run {i} is {float(off)} away from itself alone"


def test_runs_from_one_read_prompt_are_those_from_the_prompt(tiny_lab, ids):
    read = ReadPrompt.read(tiny_lab, ids[:70], rows=16)
    for method in ("sfi", "sfi_pinned", "streaming", "dense", "interval:every=3"):
        from_read = tiny_lab.generate(read, SPARSE, 10, method, ignore_eos=True, progress=False)
        plain = tiny_lab.generate(ids[:70], SPARSE, 10, method, ignore_eos=True, progress=False)
        assert from_read.token_ids == plain.token_ids, method
        assert [s.keys_read for s in from_read.steps] == [s.keys_read for s in plain.steps]
    assert read.cache.length() == 70, "what was read stays as it was"


def test_a_read_prompt_that_kept_too_little_is_refused(tiny_lab, ids):
    read = ReadPrompt.read(tiny_lab, ids[:40], rows=3)
    with pytest.raises(SfiError, match="rows=15"):
        tiny_lab.generate(read, SPARSE, 3)
    session = tiny_lab.session(SPARSE.with_(prefill_window=2))
    session.generate(read, 2, progress=False)
    with pytest.raises(SfiError, match="starts a new session"):
        session.generate(read, 2)


def test_forced_tokens_in_a_batch(tiny_lab, ids):
    given = [Job(ids[:30], SPARSE, 1, options={"force": ids[30:36]}), Job(ids[:50], SPARSE, 4)]
    first, second = generate_together(tiny_lab, given)
    assert first.token_ids == ids[30:36]
    assert first.stop_reason == "forced"
    assert len(second.steps) == 4


def test_a_failing_run_leaves_the_others_closed(tiny_lab, ids):
    def fail(i, _logits):
        if i == 2:
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        generate_together(tiny_lab, [Job(ids[:30], SPARSE, 5), Job(ids[:20], SPARSE, 5, options={"watch": fail})])
    assert tiny_lab._users == 0  # the model's own attention is back
    assert len(tiny_lab.generate(ids[:20], SPARSE, 3, ignore_eos=True, progress=False).steps) == 3
