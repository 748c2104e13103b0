"""`TaskSource`: what every name in the registry stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.tasks.generated.table import make
from sfi_lab.tasks.haystack import Haystack
from sfi_lab.tasks.positions import within
from sfi_lab.tasks.task import Task


class TaskSource(ABC):
    """Tasks under one name. generated: made to a length, so that scores can be given by length."""

    name: str
    generated: bool

    @property
    def key(self) -> str:
        """What it asks: of sources with the same key one is enough."""
        return self.name

    @abstractmethod
    def tasks(
        self,
        lengths: Sequence[int],
        n: int,
        seed: int,
        count: Callable[[str], int],
        tokenizer: Any = None,
        limit: int | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Task]:
        """The tasks, the same for the same arguments.

        lengths: of the prompts at most, in units of `count`, each counted once; data sets have their own and ignore them.
        n: tasks a length where generated, else how many of the data set's (0: all), drawn by the seed. tokenizer, limit:
        the model's tokenizer and positions. Whatever a run adds to a prompt (chat template, special tokens) and its longest
        answer fit into the limit too: a generated prompt has that much less text and keeps the asked length as its name, a
        data set's is cut in the middle. Where all fits, a prompt doesn't depend on the limit. max_new_tokens: the longest
        answer, instead of each task's own; a generated prompt gets longer for a shorter one, and never shorter for a longer one.

        Raises SfiError: a length that is too short, or beyond the limit; data that is not there.
        """


@dataclass(frozen=True, slots=True)
class GeneratedSource(TaskSource):
    """A generated kind; seeds are seed, seed + 1, … depth: of a single needle, as a share of the text."""

    name: str
    kind: str
    depth: float | None = None
    generated: bool = True

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        if n < 1:
            raise SfiError(f"{self.name} is made to order: it needs a number of tasks from 1, not {n}")
        hay = Haystack(count)

        def one(length: int, its_seed: int) -> Task:
            build = lambda room: make(self.kind, length, its_seed, count, hay, self.depth, room)  # noqa: E731
            return within(build, length, tokenizer, limit, self.name, max_new_tokens)

        return [one(length, seed + i) for length in dict.fromkeys(lengths) for i in range(n)]
