"""The evaluation: every task under every method and budget, paired, greedy, resumable, with a table of intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfi_lab.errors import SfiError
from sfi_lab.evaluate.arms import Arm, make_arms
from sfi_lab.evaluate.memory import Batcher, out_of_memory
from sfi_lab.evaluate.plan import Plan, make_plan
from sfi_lab.evaluate.publish import note_run, publish
from sfi_lab.evaluate.sample import Sample, evaluate_tasks, read_task
from sfi_lab.methods import Method
from sfi_lab.settings import Settings
from sfi_lab.studies.machine import machine
from sfi_lab.studies.report import command_line
from sfi_lab.studies.store import Store
from sfi_lab.tasks import Task, parse_tasks

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


def evaluate(
    lab: Lab,
    methods: str | Sequence[str | Method] = "dense,sfi,streaming,snapkv",
    tasks: str = "single_needle,multi_key,fact_qa",
    out: str | Path = "results/methods",
    *,
    budgets: Sequence[int] = (128, 256, 512),
    contexts: Sequence[int] = (1024,),
    samples: int = 4,
    seed: int = 0,
    settings: Settings | None = None,
    recent: int | None = None,
    max_new_tokens: int | None = None,
    batch: int = 16,
    data: Path | None = None,
    templates: Path | None = None,
    progress: Callable[[str], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Evaluates methods on tasks and writes OUT/samples.parquet, summary.parquet and report.md.

    Every method sees the same prompts, each read once with dense attention; decoding is greedy. Every arm runs along the
    dense run's tokens, which gives the KL to dense, and by itself, which is scored; the second run is spared where the
    first never preferred another token, because it would be the same.

    Args:
        methods: names with parameters, "snapkv:window=16,quest" or a list (`sfi_lab.methods`); dense is always there.
        tasks: names as `sfi_lab.tasks.parse_tasks` reads them. data: folder of local copies of data sets; templates: a JSON
            file of prompt templates of one's own.
        budgets: positions a step reads per layer and KV head, sink and recent among them.
        contexts: lengths of generated prompts, in the model's tokens. samples: tasks a length (of a data set: how many in all,
            0 for every one). seed: of the first task; the following ones count up.
        settings: everything but recent and K (default `Settings.paper()`); recent: the window, by default a quarter of
            the budget. max_new_tokens: instead of each task's own.
        batch: runs decoded in lock step; halved when memory runs out.
        progress: told a line a task.

    A call that was cut short goes on where it stopped: give the same arguments. Several processes may share a folder with
    different tasks; `republish` then makes the tables of all that is there.

    Returns the summary as plain values. Raises SfiError for what can't be run before anything is decoded or written; and,
    once everything else is finished, for tasks that didn't fit in memory.
    """
    began = time.perf_counter()
    arms = make_arms(methods, budgets, settings or Settings.paper(), recent)
    _check(samples, batch, contexts, max_new_tokens)
    plan = make_plan(lab, arms, parse_tasks(tasks, data, templates), contexts, samples, seed, max_new_tokens)
    store = Store(out, _config(lab, arms, max_new_tokens))
    say = progress or (lambda line: None)
    todo = plan.open(store)
    if len(todo) < len(plan.tasks):
        say(f"{len(plan.tasks) - len(todo)} of {len(plan.tasks)} tasks are done already")
    if todo:
        note_run(store.root, machine(lab.device), command or command_line())
    for done, seconds in _work(lab, todo, arms, plan, Batcher(lab, batch, say), store):
        left = plan.left(seconds, todo[:done], todo[done:])
        say(
            f"{done} of {len(todo)} tasks, {todo[done - 1].name}, {_minutes(seconds)} so far, about {_minutes(left)} left"
        )
    finished = [task.name for task in plan.tasks if store.done(task.name)]
    found = publish(store, finished) if finished else {}
    if too_large := [task.name for task in plan.tasks if task.name not in finished]:
        raise SfiError(
            f"{', '.join(too_large)}: not enough memory, even for one run at a time; give shorter contexts or a smaller dtype. "
            f"{len(finished)} other tasks are finished in {store.root}"
        )
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def _work(
    lab: Lab, todo: Sequence[Task], arms: Sequence[Arm], plan: Plan, batcher: Batcher, store: Store
) -> Iterator[tuple[int, float]]:
    """Evaluates the tasks, as many at once as share a batch; yields how many are done with and the seconds so far.

    Where memory runs out although the batch can't be halved, fewer prompts go together; one that doesn't fit alone is
    left out, so that the store has no results of it.
    """
    began, done = time.perf_counter(), 0
    together = max(1, batcher.size // len(arms))
    while done < len(todo):
        group, size = todo[done : done + together], batcher.size
        frames = _evaluate(lab, group, arms, plan, batcher)
        if frames is None and len(group) > 1:
            together = len(group) // 2
            continue
        if frames is None:
            batcher.size = size  # what one prompt couldn't do with is no reason for the others
        for task, frame in zip(group, frames or (), strict=False):
            store.save(task.name, {"rows": frame})
        done += len(group)
        yield done, time.perf_counter() - began


def _evaluate(
    lab: Lab, group: Sequence[Task], arms: Sequence[Arm], plan: Plan, batcher: Batcher
) -> list[pl.DataFrame] | None:
    """Rows of several tasks that share batches; None where memory ran out."""
    samples = []
    try:
        for task in group:
            reading = time.perf_counter()
            read = read_task(lab, task, plan.rows, plan.accumulates)
            samples.append(Sample(lab, task, arms, read, time.perf_counter() - reading))
        return evaluate_tasks(batcher, samples)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
    return None


def _check(samples: int, batch: int, contexts: Sequence[int], max_new_tokens: int | None) -> None:
    least = {"samples": (samples, 0), "batch": (batch, 1), "max_new_tokens": (max_new_tokens or 2, 2)}
    for name, (value, low) in least.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise SfiError(f"{name} = {value!r} is not allowed; allowed: a whole number ≥ {low}")
    if not contexts or any(isinstance(c, bool) or not isinstance(c, int) or c < 1 for c in contexts):
        raise SfiError(f"contexts = {list(contexts)} is not allowed; allowed: lengths in tokens, whole numbers ≥ 1")


def _config(lab: Lab, arms: Sequence[Arm], max_new_tokens: int | None) -> dict[str, Any]:
    """What must be the same for a call to go on in a folder; tasks and samples may be added."""
    return {
        "study": "evaluate",
        "model": lab.name,
        "dtype": str(lab.dtype).removeprefix("torch."),
        "device": lab.device.type,
        "arms": [arm.name for arm in arms],
        "settings": [arm.settings.to_dict() for arm in arms],
        "max_new_tokens": max_new_tokens,
    }


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
