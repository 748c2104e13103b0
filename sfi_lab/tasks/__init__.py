"""Retrieval tasks in RULER's manner, made from a seed: text of a chosen length with facts hidden in it, scored exactly.

| name | what |
|---|---|
| `make(kind, length, seed)` | one `Task`: prompt, answers and where its facts lie |
| `sweep(kinds, lengths, seeds)` | tasks over several context lengths |
| `score(task, text)` | share of the answers found in a continuation |
| `KINDS` | the kinds there are |
"""

from sfi_lab.tasks.haystack import Haystack
from sfi_lab.tasks.kinds import KINDS, make, sweep
from sfi_lab.tasks.task import Task, score

__all__ = ["KINDS", "Haystack", "Task", "make", "score", "sweep"]
