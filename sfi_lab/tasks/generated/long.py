"""Long generation: a story after a page of notes, a proof sketch after a list of lemmas; more than 500 tokens each.

Meant for a chat template, where small models fall into a loop later; without one the same text is continued.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from sfi_lab.errors import SfiError
from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.generated.facts import FIRST_NAMES, GOODS, SURNAMES, THINGS, TOWNS
from sfi_lab.tasks.haystack import Haystack

NEW_TOKENS = 640  # an answer of 512 and more: SFI's errors add up over the length of what it writes
_LEAST_LINES = 4

_HABITS = (
    *("walks to the harbour before dawn", "writes letters that are never sent", "mends clocks for the neighbours"),
    *(
        "keeps a key nobody else knows of",
        "counts the steps of every staircase",
        "sings when the wind is from the north",
    ),
    *("collects maps of places that are gone", "bakes bread for the night watch", "never speaks of the war"),
    *("feeds the gulls behind the market", "paints the same window every spring", "reads the weather from the river"),
)
_BONDS = (
    *("once shared a boat with", "owes a debt to", "has not forgiven", "was taught to read by", "dreams of"),
    *("is the cousin of", "once saved the life of", "keeps the letters of", "is afraid of", "waits for"),
)


def long_story(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """Notes on people, places and things, as many as fit; the story that begins with two of them is the task."""
    a, b = (f"{first} {last}" for first, last in zip(rng.sample(FIRST_NAMES, 2), rng.sample(SURNAMES, 2), strict=True))
    town, thing = rng.choice(TOWNS), rng.choice(THINGS)
    head = f"Notes for a long story.\n\nThe story is about {a} and {b}. It begins in the town of {town}."
    frame = (
        f"Use these notes to write a long story of many paragraphs, with a beginning, a middle and an end. Let it begin "
        f"with this sentence: It was still dark in {town} when {a} found the {thing} on the doorstep."
    )
    return _filled(length, head, _notes(rng, a, b), frame, hay)


def long_proof(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """Lemmas on divisibility, as many as fit; a proof that uses them is the task."""
    n, m = rng.randint(3, 9), rng.randint(11, 19)
    head = "Lemmas on whole numbers. All letters stand for whole numbers."
    frame = (
        f"Theorem. If d divides a and d divides b, then d divides {n}a + {m}b, and every common divisor of a and b "
        f"divides their greatest common divisor.\n\nWrite a long proof of this theorem. Explain every step in full "
        f"sentences and name the lemma that it uses.\n\nProof."
    )
    return _filled(length, head, _lemmas(rng), frame, hay)


def _filled(length: int, head: str, lines: Iterator[str], frame: str, hay: Haystack) -> Draft:
    """Head, as many lines as fit into the length, frame."""
    room, chosen = length - hay.measure(head, frame, before="\n\n"), []
    first = [next(lines) for _ in range(_LEAST_LINES)]
    if (left := room - hay.measure(*first, before="\n")) < 0:
        raise SfiError(
            f"a context of {length} is too short for this task's notes and its opening; the smallest allowed is {length - left}"
        )
    for line in itertools.chain(first, lines):
        if (room := room - hay.measure(line, before="\n")) < 0:
            break
        chosen.append(line)
    prompt = "\n".join([head, *chosen]) + "\n\n" + frame
    return Draft(prompt, (), (), NEW_TOKENS, scoring="generation", chat=True)


def _notes(rng: random.Random, a: str, b: str) -> Iterator[str]:
    """Without end; the two main people come again and again."""
    people = [f"{first} {last}" for first in FIRST_NAMES for last in SURNAMES]
    kinds: tuple[Callable[[str, str], str], ...] = (
        lambda p, q: f"{p} {rng.choice(_HABITS)}.",
        lambda p, q: f"{p} {rng.choice(_BONDS)} {q}.",
        lambda p, q: f"{p} lives in the town of {rng.choice(TOWNS)} and owns the {rng.choice(THINGS)}.",
        lambda p, q: f"The people of {rng.choice(TOWNS)} say that {p} brought the {rng.choice(GOODS)} to the market.",
    )
    while True:
        p, q = rng.sample([a, b, *rng.sample(people, 3)], 2)
        yield "- " + rng.choice(kinds)(p, q)


def _lemmas(rng: random.Random) -> Iterator[str]:
    """Without end, numbered, all true."""
    number = 0
    while True:
        number += 1
        x, y = rng.randint(2, 40), rng.randint(2, 40)
        kinds = (
            f"If d divides a and d divides b, then d divides {x}a + {y}b.",
            f"If {x} divides a, then {x} divides {y}a.",
            f"If {x * y} divides a, then {x} divides a.",
            f"If a leaves the rest {x - 1} when divided by {x}, then a + 1 is divisible by {x}.",
            f"The sum of {x} multiples of d is a multiple of d.",
            f"If d divides a and d divides a + {x}, then d divides {x}.",
        )
        yield f"Lemma {number}. {rng.choice(kinds)}"
