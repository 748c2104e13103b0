"""Which of the options A-D a text settles on."""

from __future__ import annotations

import re

LETTERS = "ABCD"
_SAYS_CORRECT = (r"[Tt]he correct answer is:? \(([A-D])\)", r"[Tt]he correct answer is:? ([A-D])(?!\w)")
_SAYS = (
    r"(?i:answer is|answer:|option|choice)\s*:?\s*\(?([A-D])\)?(?!\w)",
    r"\\boxed\{\(?([A-D])\)?\}",
    r"^\s*\(?([A-D])(?:\)|\.|:|\s|$)",  # the text begins with the letter
)
_ALONE = re.compile(r"(?<![\w'])([A-D])(?![\w'])")


def chosen_letter(text: str, strict: bool = False) -> str | None:
    """The letter, or None where the text settles on none.

    The sentence that the prompts ask for, "The correct answer is (X)", goes first: its first use, as LongBench V2's
    evaluation takes it; bold marks are no obstacle. strict: nothing else counts. Otherwise other ways of saying so
    follow, their last use first, because reasoning names options before it decides.
    """
    plain = text.replace("*", "")
    for pattern in _SAYS_CORRECT:
        if said := re.search(pattern, plain):
            return said[1]
    if strict:
        return None
    for pattern in _SAYS:
        if said := re.findall(pattern, plain):
            return said[-1]
    return None


def first_letter(text: str) -> str | None:
    """The first capital A-D that stands by itself; None where there is none."""
    found = _ALONE.search(text)
    return found[1] if found else None
