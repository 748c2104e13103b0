"""Needles: numbers under a name, hidden in the text; one, several names, several numbers, several questions."""

from __future__ import annotations

import random

from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.haystack import Haystack

_PLACES = (
    *("Amber", "Birch", "Cedar", "Dover", "Elm", "Fern", "Grove", "Harbour"),
    *("Iris", "Juniper", "Kestrel", "Linden", "Maple", "Nettle", "Orchard", "Poplar"),
)
_VALUES = 3  # numbers under one name in multi_value
_QUERIES = 3  # names asked in multi_query, of twice as many


def single_needle(length: int, rng: random.Random, hay: Haystack, depth: float | None = None) -> Draft:
    """One six-digit number in the text; asked for by its name. depth: where it stands, as a share of the text."""
    place, number = rng.choice(_PLACES), _number(rng)
    prompt, depths = hay.with_needles(length, [_fact(place, number)], _question(place), rng, depth=depth)
    return Draft(prompt, (number,), depths, 16)


def multi_key(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """Four such numbers under different names; one of them is asked for."""
    places = rng.sample(_PLACES, 4)
    numbers = [_number(rng) for _ in places]
    asked = rng.randrange(4)
    facts = [_fact(place, number) for place, number in zip(places, numbers, strict=True)]
    prompt, depths = hay.with_needles(length, facts, _question(places[asked]), rng)
    return Draft(prompt, (numbers[asked],), depths, 16)


def multi_value(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """One name with several numbers, each said in its own place; all are asked for."""
    place, numbers = rng.choice(_PLACES), _numbers(rng, _VALUES)
    facts = [f"One of the special numbers of {place} House is {number}." for number in numbers]
    frame = (
        f"Question: what are the {_VALUES} special numbers of {place} House, which are given in the text above?\n"
        f"Answer: The {_VALUES} special numbers of {place} House are:\n1."
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return Draft(prompt, tuple(numbers), depths, 20 * _VALUES, stop=("\n\n", f"\n{_VALUES + 1}."))


def multi_query(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """Numbers under different names; several are asked for at once. The depths are those of the facts asked for."""
    places = rng.sample(_PLACES, 2 * _QUERIES)
    numbers = dict(zip(places, _numbers(rng, len(places)), strict=True))
    facts = [_fact(place, number) for place, number in numbers.items()]
    asked = rng.sample(places, _QUERIES)
    houses = ", ".join(f"{place} House" for place in asked[:-1]) + f" and {asked[-1]} House"
    frame = (
        f"Question: what are the special numbers of {houses}, which are given in the text above?\n"
        f"Answer: The special number of {asked[0]} House is"
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    wanted = tuple(depths[places.index(place)] for place in asked)
    return Draft(prompt, tuple(numbers[place] for place in asked), wanted, 20 * _QUERIES, stop=("\n\n", "Question"))


def _number(rng: random.Random) -> str:
    return str(rng.randint(100_000, 999_999))


def _numbers(rng: random.Random, n: int) -> list[str]:
    return [str(number) for number in rng.sample(range(100_000, 1_000_000), n)]


def _fact(place: str, number: str) -> str:
    return f"The special number of {place} House is {number}."


def _question(place: str) -> str:
    return f"Question: what is the special number of {place} House, which is given in the text above?\nAnswer: The special number of {place} House is"
