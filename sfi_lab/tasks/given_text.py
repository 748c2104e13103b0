"""Perplexity of given text: a stretch of a file is read as the prompt, what follows it is teacher-forced."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.positions import within
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

    @property
    def key(self) -> str:
        """The text, so that one text isn't counted twice, by whatever path it is given."""
        return f"perplexity:{DOCUMENTATION if self.what == DOCUMENTATION else _digest(_read(self.what))}"

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        """`n` stretches a length, from places drawn by the seed; each begins where a paragraph does, if that leaves enough text."""
        if n < 1:
            raise SfiError(f"{self.name} needs a number of stretches from 1, not {n}")
        text = _read(self.what)
        label = _label(self.what)

        def one(length: int, its_seed: int) -> Task:
            build = lambda room: self._task(text, label, length, its_seed, count, room)  # noqa: E731
            return within(build, length, tokenizer, limit, self.name, max_new_tokens)

        return [one(length, seed + i) for length in dict.fromkeys(lengths) for i in range(n)]

    def _task(self, text: str, label: str, length: int, seed: int, count: Callable[[str], int], room: int) -> Task:
        """The stretch drawn by length and seed, of which the prompt is `room` long at most."""
        rng = random.Random(f"perplexity/{length}/{seed}")
        starts = [0, *(match.end() for match in re.finditer(r"\n\s*\n", text))]
        rng.shuffle(starts)
        for start in [*starts, 0]:
            pieces = _PIECE.findall(text, start)
            prompt_end = fitting(pieces, room, count)
            end = prompt_end + fitting(pieces[prompt_end:], CONTINUED, count)
            if prompt_end and end < len(pieces):
                break
        else:
            raise SfiError(
                f"{self.what} is too short for a prompt of {room} and {CONTINUED} more to continue it with: "
                f"it has {count(text)} in all"
            )
        return Task(
            kind=self.name,
            length=length,
            seed=seed,
            prompt="".join(pieces[:prompt_end]).lstrip(),
            answers=(),
            depths=(),
            max_new_tokens=CONTINUED,
            name=f"perplexity-{label}-{length}-{seed}",
            scoring="perplexity",
            continuation="".join(pieces[prompt_end:end]),
        )


def _label(what: str) -> str:
    """What tasks are named by: the file's name without folder and ending, and 8 hex digits of its whole path.

    Two files never share it, and one file has it in every call and whatever it holds: tasks of a file that was changed keep
    their names and get other fingerprints.
    """
    return what if what == DOCUMENTATION else f"{Path(what).stem}-{_digest(Path(what).resolve().as_posix())}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


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
