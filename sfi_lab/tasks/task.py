"""A task: what is asked, what is right, and how the continuation is scored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields

from sfi_lab.errors import SfiError
from sfi_lab.tasks.metrics import ALL_ANSWERS, METRICS
from sfi_lab.text.stop_strings import find_stop

SCORINGS = ("answers", "generation", "perplexity")
# What a task is called, grouped and described by; everything else decides what is asked and how it is scored.
_DESCRIBES = ("kind", "length", "seed", "name", "depths", "labels")


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    kind: what it is called in a table ("single_needle", "longbench:hotpotqa"). length: the length asked for, in units
    of the caller's `count`; 0 for data sets. seed: of generated tasks; 0 for data sets.
    prompt: the text. Generated ones end with the first words of the answer, so that a small model knows what is asked.
    answers: all of them are wanted where `metric` is "contains", else each is right by itself.
    depths: where the facts needed begin, as shares of the prompt's characters. max_new_tokens: enough for the answer.
    name: unique among tasks; "KIND-LENGTH-SEED" where none is given.
    chat: the prompt is meant for the model's chat template, if it has one.
    scoring: "answers" (`score`), "generation" (`generation_scores`) or "perplexity" (`perplexity` of `continuation`).
    continuation: the text that is teacher-forced after the prompt. stop: decoding may end at any of these strings.
    metric: a name in `METRICS`. first_line: only the continuation's first line is scored. classes: all labels there are.
    labels: (name, value) pairs to group scores by, such as ("difficulty", "hard").
    """

    kind: str
    length: int
    seed: int
    prompt: str
    answers: tuple[str, ...]
    depths: tuple[float, ...]
    max_new_tokens: int
    name: str = ""
    chat: bool = False
    scoring: str = "answers"
    continuation: str = ""
    stop: tuple[str, ...] = ()
    metric: str = "contains"
    first_line: bool = False
    classes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{self.kind}-{self.length}-{self.seed}")
        if self.scoring not in SCORINGS:
            raise SfiError(f"scoring is one of {', '.join(SCORINGS)}; got {self.scoring!r}")
        if self.metric not in METRICS:
            raise SfiError(f"unknown metric {self.metric!r}; allowed: {', '.join(METRICS)}")
        if self.scoring == "answers" and not self.answers:
            raise SfiError(f"task {self.name} has no answers to score")

    @property
    def fingerprint(self) -> str:
        """16 hex digits that stand for what is asked and how it is scored: the same for two tasks that agree in that.

        A folder of results knows its tasks by name; with this it can tell that a name now stands for another prompt (another
        version, template, tokenizer, file or limit) and that its rows don't belong to it. It is the beginning of a SHA-256 over
        every field but kind, length, seed, name, depths and labels, as canonical JSON (sorted names, ASCII, lists for
        tuples), so it doesn't depend on the process, the platform or the order of the fields.
        """
        asked = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _DESCRIBES}
        text = json.dumps(asked, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def score(task: Task, text: str) -> float:
    """Score of a continuation, from 0 to 1, by the task's metric (`sfi_lab.tasks.metrics`).

    The text counts up to the first of the task's `stop` strings that has text before it, as decoding ends there
    (`find_stop`); with `first_line` up to its first line's end after leading line breaks. "contains" gives the
    share of the answers found; every other metric gives the best over the answers. Raises SfiError for a task that is
    not scored by answers.
    """
    if task.scoring != "answers":
        raise SfiError(f"{task.name} is scored by {task.scoring}, not by answers")
    text = _counted(task, text)
    found = [METRICS[task.metric](text, answer, task.classes) for answer in task.answers]
    return sum(found) / len(found) if task.metric in ALL_ANSWERS else max(found)


def _counted(task: Task, text: str) -> str:
    if task.stop or task.first_line:
        text = text.lstrip("\n")
    text = text[: min((at for stop in task.stop if (at := find_stop(text, stop)) >= 0), default=len(text))]
    return text.partition("\n")[0] if task.first_line else text
