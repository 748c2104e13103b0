"""Perplexity of given text: a stretch of a file is read as the prompt, what follows it is teacher-forced."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task
from sfi_lab.text import pydoc_document

DOCUMENTATION = "pydoc"  # instead of a file: Python's own documentation
CONTINUED = 256  # length of the continuation, in units of `count`
_PIECE = re.compile(r"\s*\S+")  # a word with the space before it, so that pieces joined are the text


@dataclass(frozen=True, slots=True)
class GivenText(TaskSource):
    """Stretches of one text. what: a text file's path, or "pydoc". name: "perplexity:WHAT"."""

    what: str
    generated: bool = True

    def __post_init__(self) -> None:
        if self.what != DOCUMENTATION and not Path(self.what).is_file():
            raise SfiError(
                f"perplexity:{self.what}: there is no file {self.what}; allowed: a text file, or {DOCUMENTATION}"
            )

    @property
    def name(self) -> str:
        return f"perplexity:{self.what}"

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None) -> list[Task]:
        """`n` stretches a length, from places drawn by the seed; each begins where a paragraph does, if that leaves enough text."""
        if n < 1:
            raise SfiError(f"{self.name} needs a number of stretches from 1, not {n}")
        text = _read(self.what)
        return [self._task(text, length, seed + i, count) for length in lengths for i in range(n)]

    def _task(self, text: str, length: int, seed: int, count: Callable[[str], int]) -> Task:
        rng = random.Random(f"perplexity/{length}/{seed}")
        starts = [0, *(match.end() for match in re.finditer(r"\n\s*\n", text))]
        rng.shuffle(starts)
        for start in [*starts, 0]:
            pieces = _PIECE.findall(text, start)
            prompt_end = fitting(pieces, length, count)
            end = prompt_end + fitting(pieces[prompt_end:], CONTINUED, count)
            if prompt_end and end < len(pieces):
                break
        else:
            raise SfiError(
                f"{self.what} is too short for a prompt of {length} and {CONTINUED} more to continue it with"
            )
        return Task(
            kind=self.name,
            length=length,
            seed=seed,
            prompt="".join(pieces[:prompt_end]).lstrip(),
            answers=(),
            depths=(),
            max_new_tokens=CONTINUED,
            name=f"perplexity-{_plain(self.what)}-{length}-{seed}",
            scoring="perplexity",
            continuation="".join(pieces[prompt_end:end]),
        )


def _plain(what: str) -> str:
    """A path without its ending, as one word that two files don't share."""
    return Path(what).with_suffix("").as_posix().strip("/").replace("/", "_")


def fitting(pieces: Sequence[str], length: int, count: Callable[[str], int]) -> int:
    """How many of the pieces, joined from the first on, measure at most `length`."""
    low, high = 0, min(len(pieces), length)  # no piece measures less than one
    while low < high:
        middle = (low + high + 1) // 2
        if count("".join(pieces[:middle])) <= length:
            low = middle
        else:
            high = middle - 1
    return low


def _read(what: str) -> str:
    if what == DOCUMENTATION:
        return pydoc_document()
    try:
        return Path(what).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SfiError(f"{what} can't be read as UTF-8 text: {problem}") from problem
