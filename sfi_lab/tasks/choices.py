"""Which of the options A-D a text settles on."""

from __future__ import annotations

import re

LETTERS = "ABCD"
# LongBench V2's evaluation, to the letter: no colon, a capital T, and "The correct answer is Apples" settles on A.
_OFFICIAL = (r"The correct answer is \(([A-D])\)", r"The correct answer is ([A-D])")
_SAYS_CORRECT = (r"[Tt]he correct answer is:? \(([A-D])\)", r"[Tt]he correct answer is:? ([A-D])(?!\w)")
_SAYS = (
    r"(?i:answer is|answer:|option|choice)\s*:?\s*\(?([A-D])\)?(?!\w)",
    r"\\boxed\{\(?([A-D])\)?\}",
    r"^\s*\(?([A-D])(?:\)|\.|:|\s|$)",  # the text begins with the letter
)
_ALONE = re.compile(r"(?<![\w'])([A-D])(?![\w'])")


def chosen_letter(text: str, strict: bool = False) -> str | None:
    """The letter, or None where the text settles on none.

    The sentence that the prompts ask for, "The correct answer is (X)", goes first, its first use; bold marks are no
    obstacle. strict: nothing else counts, and the sentence is looked for with the patterns of LongBench V2's evaluation
    (with brackets, then without). Otherwise a small t and a colon are allowed in it, and other ways of saying so follow,
    their last use first, because reasoning names options before it decides.
    """
    plain = text.replace("*", "")
    for pattern in _OFFICIAL if strict else _SAYS_CORRECT:
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
