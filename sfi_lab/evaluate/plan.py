"""What an evaluation will decode: its tasks, each once, and that every one can be run, told before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfi_lab.decoder.prompt import encode
from sfi_lab.errors import SfiError
from sfi_lab.evaluate.arms import Arm
from sfi_lab.evaluate.sample import encode_continuation, needs, prompt_of
from sfi_lab.studies.material import counter
from sfi_lab.studies.store import Store
from sfi_lab.tasks import Task, TaskSource

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks in the order they were asked for, the weight of each, and what their prompts must keep.

    weights: about how long a task takes, by name, in a unit of its own. rows: a prompt's last queries to keep a layer;
    accumulates: whether the attention that positions received is summed.
    """

    tasks: tuple[Task, ...]
    weights: dict[str, int]
    rows: int
    accumulates: bool

    def left(self, seconds: float, done: Sequence[Task], todo: Sequence[Task]) -> float:
        """Seconds that `todo` will take if `done` took `seconds`."""
        return seconds / sum(self.weights[task.name] for task in done) * sum(self.weights[task.name] for task in todo)

    def open(self, store: Store) -> list[Task]:
        """The tasks that a folder has no results of.

        Raises SfiError where its results are of another prompt, or of one that was scored in another way.
        """
        todo = [task for task in self.tasks if not store.done(task.name)]
        waiting = {task.name for task in todo}
        for task in self.tasks:
            if task.name not in waiting and _fingerprint(store, task.name) not in (None, task.fingerprint):
                raise SfiError(
                    f"{store.root} holds results of another prompt called {task.name}: its data, templates, seed or text were "
                    "others; give a new folder"
                )
        return todo


def make_plan(
    lab: Lab,
    arms: Sequence[Arm],
    sources: Sequence[TaskSource],
    contexts: Sequence[int],
    samples: int,
    seed: int,
    max_new_tokens: int | None,
) -> Plan:
    """Makes the tasks and checks that each can be run under every arm.

    Raises SfiError: a model none of whose layers can be made sparse, a method that the model or a budget rules out, a
    prompt that leaves no room for its answer in the model's context.
    """
    if "full" not in lab.spec.layer_kinds:
        raise SfiError(
            f"every layer of {lab.name} keeps a window of its own, which no method makes sparse, so there is nothing to compare"
        )
    rows, accumulates = needs(lab, arms)
    count = counter(lab)
    lengths = list(dict.fromkeys(contexts))
    found: dict[str, Task] = {}
    for source in sources:
        for task in source.tasks(lengths, samples, seed, count, lab.tokenizer, lab.spec.max_positions, max_new_tokens):
            if found.setdefault(task.name, task).fingerprint != task.fingerprint:
                raise SfiError(f"two tasks are called {task.name}; name their sources in two calls with a folder each")
    weights = {name: _weight(lab, task, len(arms)) for name, task in found.items()}
    return Plan(tuple(found.values()), weights, rows, accumulates)


def _weight(lab: Lab, task: Task, arms: int) -> int:
    """Prompt tokens, read once, and new ones, of every arm; checks that both fit."""
    prompt = len(encode(lab.tokenizer, prompt_of(lab, task), lab.spec.vocab_size))
    new = len(encode_continuation(lab, task)) or task.max_new_tokens
    limit = lab.spec.max_positions
    if limit and prompt + new - 1 > limit:  # the last new token is never fed
        raise SfiError(
            f"{task.name} has {prompt} tokens, which leaves no room for {new} new ones in the model's {limit} positions; "
            "give a shorter context or fewer new tokens"
        )
    return prompt + new * arms


def _fingerprint(store: Store, name: str) -> str | None:
    """That of the task whose results a folder holds; None where an older version wrote them."""
    rows = store.frame("rows", [name])
    return rows["fingerprint"][0] if "fingerprint" in rows.columns else None
