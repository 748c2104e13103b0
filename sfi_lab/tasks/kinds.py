"""The kinds of tasks: single and several needles, variable tracking, common words (after RULER, arXiv 2404.06654)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

from sfi_lab.errors import SfiError
from sfi_lab.tasks.haystack import Haystack, words
from sfi_lab.tasks.task import Task

_PLACES = [
    "Amber",
    "Birch",
    "Cedar",
    "Dover",
    "Elm",
    "Fern",
    "Grove",
    "Harbour",
    "Iris",
    "Juniper",
    "Kestrel",
    "Linden",
    "Maple",
    "Nettle",
    "Orchard",
    "Poplar",
]
_COMMON = [
    "anchor",
    "basket",
    "candle",
    "dragon",
    "engine",
    "feather",
    "garden",
    "hammer",
    "island",
    "jacket",
    "kettle",
    "ladder",
    "mirror",
    "needle",
    "orange",
    "pepper",
]


def single_needle(length: int, rng: random.Random, hay: Haystack) -> tuple:
    """One six-digit number in the text; asked for by its name."""
    place, number = rng.choice(_PLACES), _number(rng)
    prompt, depths = hay.with_needles(length, [_fact(place, number)], _question(place), rng)
    return prompt, (number,), depths, 16


def multi_needle(length: int, rng: random.Random, hay: Haystack) -> tuple:
    """Four such numbers under different names; one of them is asked for."""
    places = rng.sample(_PLACES, 4)
    numbers = [_number(rng) for _ in places]
    asked = rng.randrange(4)
    facts = [_fact(place, number) for place, number in zip(places, numbers, strict=True)]
    prompt, depths = hay.with_needles(length, facts, _question(places[asked]), rng)
    return prompt, (numbers[asked],), depths, 16


def variable_tracking(length: int, rng: random.Random, hay: Haystack) -> tuple:
    """A chain of assignments through the text; which variables hold the first value?"""
    names = rng.sample([a + b for a in "ABCDEFGHJK" for b in "LMNPQRSTUV"], 3)
    value = str(rng.randint(10_000, 99_999))
    facts = [f"VAR {names[0]} = {value}."] + [f"VAR {b} = VAR {a}." for a, b in itertools.pairwise(names)]
    frame = (
        f"Question: find all variables that hold the value {value} in the text above.\n"
        f"Answer: three variables hold the value {value}; they are: VAR"
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return prompt, tuple(names), depths, 32


def common_words(length: int, rng: random.Random, hay: Haystack) -> tuple:
    """Three words each said eight times among words said once; which are the most common ones?"""
    chosen = rng.sample(_COMMON, len(_COMMON))
    common, rare = chosen[:3], chosen[3:]
    said = common * 8 + rare
    rng.shuffle(said)
    facts = [f"Word number {i}: {word}." for i, word in enumerate(said, 1)]
    frame = (
        "Question: what are the three words that come most often in the numbered list of words in the text above?\n"
        "Answer: the three most common words are:"
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return prompt, tuple(common), depths, 32


KINDS: dict[str, Callable[[int, random.Random, Haystack], tuple]] = {
    "single_needle": single_needle,
    "multi_needle": multi_needle,
    "variable_tracking": variable_tracking,
    "common_words": common_words,
}


def make(
    kind: str, length: int, seed: int = 0, count: Callable[[str], int] = words, haystack: Haystack | None = None
) -> Task:
    """One task, the same for the same arguments and Python version (which fixes the documentation's text).

    length: of the prompt at most, in units of `count` (words, or tokens with a tokenizer's counter). haystack: one made
    with the same `count`, to make many tasks quickly. Raises SfiError for an unknown kind or a length that is too short.
    """
    if kind not in KINDS:
        raise SfiError(f"unknown task {kind!r}; allowed: {', '.join(KINDS)}")
    hay = haystack or Haystack(count)
    prompt, answers, depths, new = KINDS[kind](length, random.Random(f"{kind}/{length}/{seed}"), hay)
    return Task(kind, length, seed, prompt, answers, depths, new)


def sweep(
    kinds: Sequence[str] = tuple(KINDS),
    lengths: Sequence[int] = (500, 1000, 2000, 4000),
    seeds: Sequence[int] = range(3),
    count: Callable[[str], int] = words,
) -> list[Task]:
    """Every kind at every length with every seed."""
    hay = Haystack(count)
    return [make(kind, length, seed, count, hay) for kind in kinds for length in lengths for seed in seeds]


def _number(rng: random.Random) -> str:
    return str(rng.randint(100_000, 999_999))


def _fact(place: str, number: str) -> str:
    return f"The special number of {place} House is {number}."


def _question(place: str) -> str:
    return f"Question: what is the special number of {place} House, which is given in the text above?\nAnswer: The special number of {place} House is"
