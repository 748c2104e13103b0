"""Common words: a numbered list of words spread through the text; which come most often?"""

from __future__ import annotations

import random

from sfi_lab.tasks.generated.draft import Draft
from sfi_lab.tasks.haystack import Haystack

_WORDS = (
    *("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer"),
    *("island", "jacket", "kettle", "ladder", "mirror", "needle", "orange", "pepper"),
)


def common_words(length: int, rng: random.Random, hay: Haystack) -> Draft:
    """Three words each said eight times among words said once; which are the most common ones?"""
    chosen = rng.sample(_WORDS, len(_WORDS))
    common, rare = chosen[:3], chosen[3:]
    said = common * 8 + rare
    rng.shuffle(said)
    facts = [f"Word number {i}: {word}." for i, word in enumerate(said, 1)]
    frame = (
        "Question: what are the three words that come most often in the numbered list of words in the text above?\n"
        "Answer: the three most common words are:"
    )
    prompt, depths = hay.with_needles(length, facts, frame, rng)
    return Draft(prompt, tuple(common), depths, 32)
