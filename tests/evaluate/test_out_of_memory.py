"""Running out of memory: smaller batches, fewer prompts at once, and a task left out."""

import gc
import weakref

import pytest
import torch

from harness_run import SETTINGS, run, samples
from sfi_lab import SfiError
from sfi_lab.decoder.batch import Job, generate_together
from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.evaluate import harness
from sfi_lab.evaluate.memory import Batcher
from sfi_lab.studies.material import counter
from sfi_lab.tasks import parse_tasks


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no room"), MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")]
)
def test_out_of_memory_halves_the_batch(lab, tmp_path, monkeypatch, error):
    sizes = []

    def short_of_memory(the_lab, jobs):
        sizes.append(len(jobs))
        if len(jobs) > 3:
            generate_together(the_lab, jobs[:1])  # gets somewhere before it fails
            raise error
        return generate_together(the_lab, jobs)

    run(lab, tmp_path / "whole")
    monkeypatch.setattr("sfi_lab.evaluate.memory.generate_together", short_of_memory)
    lines = []
    run(lab, tmp_path / "halved", progress=lines.append, batch=14)
    assert (
        max(sizes[sizes.index(12) + 1 :]) <= 6
        and lines.count("out of memory with 12 runs at once; going on with 6") == 1
    )
    a, b = samples(tmp_path / "whole"), samples(tmp_path / "halved")
    assert (a["kl"] - b["kl"]).abs().max() < 1e-5 and a["text"].equals(b["text"])


def test_what_is_no_lack_of_memory_is_not_hidden(lab, monkeypatch):
    def fails(*_):
        raise RuntimeError("something else")

    monkeypatch.setattr("sfi_lab.evaluate.memory.generate_together", fails)
    with pytest.raises(RuntimeError, match="something else"):
        Batcher(lab, 8).generate([None] * 4)


def test_a_finished_batch_leaves_its_memory_to_the_next(lab, monkeypatch):
    """Results of earlier batches once held their sessions, and so every run's caches until the whole task was done."""
    caches = []
    copy = SequenceCache.copy

    def watched(cache):
        caches.append(weakref.ref(found := copy(cache)))
        return found

    monkeypatch.setattr(SequenceCache, "copy", watched)
    read = ReadPrompt.read(lab, [5, 6, 7, 8] * 12)
    results = Batcher(lab, 2).generate(
        [Job(read, SETTINGS.with_(recent=8, k=6), 3, m) for m in ("sfi", "tova", "dense")]
    )
    gc.collect()
    assert len(results) == 3 and all(len(result.steps) == 3 for result in results)
    assert len(caches) == 3 and not any(cache() for cache in caches)


@pytest.mark.parametrize("where", ["reading", "decoding"])
def test_a_task_that_does_not_fit_is_left_out_and_the_others_are_finished(lab, tmp_path, monkeypatch, where):
    read_task = harness.read_task

    def reads(the_lab, task, *needs):
        read = read_task(the_lab, task, *needs)
        if task.seed == 1 and where == "reading":
            raise torch.OutOfMemoryError("no room")
        return read

    def generates(the_lab, jobs):
        if where == "decoding" and any(len(job.prompt.ids) == larger for job in jobs):
            raise torch.OutOfMemoryError("no room")
        return generate_together(the_lab, jobs)

    tasks = parse_tasks("single_needle")[0].tasks((400,), 3, 0, counter(lab))
    larger = len(lab.tokenizer(tasks[1].prompt)["input_ids"])
    monkeypatch.setattr(harness, "read_task", reads)
    monkeypatch.setattr("sfi_lab.evaluate.memory.generate_together", generates)
    with pytest.raises(SfiError, match=r"^single_needle-400-1: not enough memory.* 2 other tasks are finished"):
        run(lab, tmp_path, samples=3, methods="streaming", budgets=(24,), batch=64)
    assert set(samples(tmp_path)["task"]) == {"single_needle-400-0", "single_needle-400-2"}
