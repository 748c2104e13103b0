"""Text of a wanted length from Python's own documentation, with sentences put in at chosen depths."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from sfi_lab.errors import SfiError
from sfi_lab.text import pydoc_document

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z“\"(])")


def words(text: str) -> int:
    """Length in words: the `count` of callers that have no tokenizer."""
    return len(text.split())


class Haystack:
    """Sentences of `pydoc_data.topics`; `count` measures a text (e.g. in tokens)."""

    def __init__(self, count: Callable[[str], int] = words) -> None:
        self._count = count
        self._sentences = [s for paragraph in pydoc_document().split("\n\n") for s in _SENTENCE.split(paragraph)]
        self._lengths: dict[int, int] = {}  # measured when first needed: a tokenizer takes seconds for all of them

    def text(self, length: int, rng: random.Random) -> list[str]:
        """Neighbouring sentences, at most `length` together, from a random place. Raises SfiError if that is more than there is."""
        start, total, chosen = rng.randrange(len(self._sentences)), 0, []
        for i in range(len(self._sentences)):
            at = (start + i) % len(self._sentences)
            total += self._length(at)
            if total > length:
                return chosen
            chosen.append(self._sentences[at])
        raise SfiError(f"a context of {length} is longer than the documentation: {total}")

    def _length(self, at: int) -> int:
        if at not in self._lengths:
            self._lengths[at] = self._count(" " + self._sentences[at])
        return self._lengths[at]

    def with_needles(
        self, length: int, needles: Sequence[str], frame: str, rng: random.Random, keep_order: bool = True
    ) -> tuple[str, tuple[float, ...]]:
        """Text with the needles at random depths between whole sentences, then `frame`; the prompt and the needles' depths.

        Together they measure at most `length`. keep_order: the needles stand in the order given.
        """
        room = length - self._count(frame) - sum(self._count(" " + needle) for needle in needles)
        if room < 20:
            raise SfiError(f"a context of {length} is too short for this task's {len(needles)} facts and its question")
        sentences = self.text(room, rng)
        places = [rng.randint(0, len(sentences)) for _ in needles]
        placed = list(zip(sorted(places) if keep_order else places, needles, strict=True))
        parts: list[str] = []
        for i in range(len(sentences) + 1):
            parts += [needle for place, needle in placed if place == i]
            parts += sentences[i : i + 1]
        prompt = " ".join(parts) + "\n\n" + frame
        return prompt, tuple(prompt.index(needle) / len(prompt) for needle in needles)
