"""`TaskSource`: what every name in the registry stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.tasks.generated.table import make
from sfi_lab.tasks.haystack import Haystack
from sfi_lab.tasks.task import Task


class TaskSource(ABC):
    """Tasks under one name. generated: made to a length, so that scores can be given by length."""

    name: str
    generated: bool

    @abstractmethod
    def tasks(
        self,
        lengths: Sequence[int],
        n: int,
        seed: int,
        count: Callable[[str], int],
        tokenizer: Any = None,
        limit: int | None = None,
    ) -> list[Task]:
        """The tasks, the same for the same arguments.

        lengths: of the prompts at most, in units of `count`; data sets have their own and ignore them. n: tasks a length
        where generated, else how many of the data set's (0: all), drawn by the seed. tokenizer, limit: prompts of data
        sets that don't fit into `limit` positions with their answer are cut in the middle, which needs the tokenizer.

        Raises SfiError: a length that is too short, data that is not there.
        """


@dataclass(frozen=True, slots=True)
class GeneratedSource(TaskSource):
    """A generated kind; seeds are seed, seed + 1, … depth: of a single needle, as a share of the text."""

    name: str
    kind: str
    depth: float | None = None
    generated: bool = True

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None) -> list[Task]:
        if n < 1:
            raise SfiError(f"{self.name} is made to order: it needs a number of tasks from 1, not {n}")
        hay = Haystack(count)
        return [make(self.kind, length, seed + i, count, hay, self.depth) for length in lengths for i in range(n)]
