"""Several runs in lock step: one forward of the model serves all, each with its own state, plan, length and ending."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfi_lab.decoder.forward import forward, forward_together
from sfi_lab.decoder.loop import Run
from sfi_lab.decoder.prompt import Prompt
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.decoder.result import Result
from sfi_lab.methods import Method
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a batch: what `Lab.generate` would be given. options: those of `Session.stream`."""

    prompt: Prompt | ReadPrompt
    settings: Settings
    max_new_tokens: int
    method: str | Method = "sfi"
    options: dict[str, Any] = field(default_factory=dict)


def generate_together(lab: Lab, jobs: Sequence[Job], each: Callable[[int], None] | None = None) -> list[Result]:
    """Decodes all jobs in lock step; each gets what it would get alone, up to the order of floating-point sums.

    Prompts may differ in length, and so may what is read and how long a run lasts. A step's wall time is shared among
    the runs in it, so `Result.seconds` says what a run cost in this batch. each: told after every step how many run on.

    Raises SfiError before anything is decoded for a job that can't be done; whatever ends the batch, every run is closed.
    """
    prepared = [
        lab.session(job.settings, job.method).prepare(
            job.prompt, job.max_new_tokens, **{**job.options, "engine": "reference"}
        )
        for job in jobs
    ]
    runs: list[Run] = [run for _, run in prepared]
    try:
        with lab.decoding():
            for run in runs:
                run.emit(run.prefill())
            live = [run for run in runs if not run.result.stop_reason]
            while live:
                _step(lab, live)
                live = [run for run in live if not run.result.stop_reason]
                if each is not None:
                    each(len(live))
    finally:
        for run in runs:
            run.close()
    return [result for result, _ in prepared]


def _step(lab: Lab, live: Sequence[Run]) -> None:
    """One decode step of every run; those that read positions again take a forward of their own."""
    began = time.perf_counter()
    feeds = [run.begin_step() for run in live]
    logits = {i: forward(lab, live[i].state, ids) for i, ids in enumerate(feeds) if len(ids) > 1}
    together = [i for i, ids in enumerate(feeds) if len(ids) == 1]
    if together:
        found = forward_together(lab, [live[i].state for i in together], [feeds[i][0] for i in together])
        logits |= dict(zip(together, found, strict=True))
    share = (time.perf_counter() - began) / len(live)
    for i, run in enumerate(live):
        run.end_step()
        run.seconds += share
        run.emit(logits[i])
