"""Text of a wanted length from Python's own documentation, with sentences put in at chosen depths."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from sfi_lab.errors import SfiError
from sfi_lab.text import pydoc_document

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z“\"(])")

_LEAST_TEXT = 20  # in units of `count`: less than that hides nothing


def words(text: str) -> int:
    """Length in words: the `count` of callers that have no tokenizer."""
    return len(text.split())


class Haystack:
    """Sentences of `pydoc_data.topics`; `count` measures a text (e.g. in tokens).

    The documentation has about 35,000 words or 48,000 tokens (`size` says it exactly). A longer text goes round: after
    the last sentence it goes on with the first, so beyond `size` sentences come again. Facts are never part of it.
    """

    def __init__(self, count: Callable[[str], int] = words) -> None:
        self._count = count
        self._sentences = [s for paragraph in pydoc_document().split("\n\n") for s in _SENTENCE.split(paragraph)]
        self._lengths: dict[int, int] = {}  # measured when first needed: a tokenizer takes seconds for all of them

    @property
    def size(self) -> int:
        """Length of the whole documentation in units of `count`; longer texts repeat it."""
        return sum(map(self._length, range(len(self._sentences))))

    def measure(self, *texts: str, before: str = " ") -> int:
        """Length of the texts together, each with a space (or `before`) before it."""
        return sum(self._count(before + text) for text in texts)

    def text(self, length: int, rng: random.Random) -> list[str]:
        """Neighbouring sentences from a random place, as many as measure at most `length` together."""
        at, total, chosen = rng.randrange(len(self._sentences)), 0, []
        while (total := total + self._length(at)) <= length:
            chosen.append(self._sentences[at])
            at = (at + 1) % len(self._sentences)
        return chosen

    def _length(self, at: int) -> int:
        if at not in self._lengths:
            self._lengths[at] = max(1, self._count(" " + self._sentences[at]))
        return self._lengths[at]

    def with_needles(
        self,
        length: int,
        needles: Sequence[str],
        frame: str,
        rng: random.Random,
        keep_order: bool = True,
        depth: float | None = None,
    ) -> tuple[str, tuple[float, ...]]:
        """Text with the needles at random depths between whole sentences, then `frame`; the prompt and the needles' depths.

        Together they measure at most `length`. keep_order: the needles stand in the order given. depth: all of them stand
        at this share of the text instead, or at the sentence end nearest to it; 0 is before the text, 1 between it and
        the frame.
        """
        room = length - self._count(frame) - self.measure(*needles)
        if room < _LEAST_TEXT:
            raise SfiError(
                f"a context of {length} is too short for this task's {len(needles)} facts and its question; "
                f"the smallest allowed is {length - room + _LEAST_TEXT}"
            )
        sentences = self.text(room, rng)
        if depth is None:
            places = [rng.randint(0, len(sentences)) for _ in needles]
        else:
            places = [_nearest_end(sentences, depth)] * len(needles)
        placed = list(zip(sorted(places) if keep_order else places, needles, strict=True))
        parts: list[str] = []
        for i in range(len(sentences) + 1):
            parts += [needle for place, needle in placed if place == i]
            parts += sentences[i : i + 1]
        prompt = " ".join(parts) + "\n\n" + frame
        return prompt, tuple(prompt.index(needle) / len(prompt) for needle in needles)


def _nearest_end(sentences: Sequence[str], depth: float) -> int:
    """How many sentences stand before the place that is this share of the text's characters in."""
    if not 0 <= depth <= 1:
        raise SfiError(f"a depth is a share of the text, from 0 to 1; got {depth}")
    wanted, passed, ends = depth * sum(map(len, sentences)), 0, [0]
    for sentence in sentences:
        ends.append(passed := passed + len(sentence))
    return min(range(len(ends)), key=lambda i: abs(ends[i] - wanted))
