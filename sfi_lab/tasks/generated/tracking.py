"""Variable tracking: a chain of assignments spread through the text."""

from __future__ import annotations

import itertools
import random

from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.haystack import Haystack


def variable_tracking(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """A chain of assignments through the text; which variables hold the first value?"""
    names = rng.sample([a + b for a in "ABCDEFGHJK" for b in "LMNPQRSTUV"], 3)
    value = str(rng.randint(10_000, 99_999))
    facts = [f"VAR {names[0]} = {value}."] + [f"VAR {b} = VAR {a}." for a, b in itertools.pairwise(names)]
    frame = (
        f"Question: find all variables that hold the value {value} in the text above.\n"
        f"Answer: three variables hold the value {value}; they are: VAR"
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return Draft(prompt, tuple(names), depths, 32)
