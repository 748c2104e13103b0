"""What the multiple-choice data sets share: a question with options A-D, in a template, as a task."""

from __future__ import annotations

from collections.abc import Sequence

from sfi_lab.tasks.choices import LETTERS

CLOSING = 'End with this sentence, the letter of the right option in the brackets: "The correct answer is (X)".'
DIRECT = 'Reply with this sentence and nothing else, the letter of the right option in the brackets: "The correct answer is (X)".'


def option_fields(question: str, options: Sequence[str], context: str = "") -> dict[str, str]:
    """Fields of a template: question, A … D and context, and the names that official template files have for them."""
    letters = {letter: option.strip() for letter, option in zip(LETTERS, options, strict=True)}
    official = {"Q": question.strip(), "DOC": context.strip()} | {
        f"C_{letter}": text for letter, text in letters.items()
    }
    return {"question": question.strip(), "context": context.strip(), **letters, **official}
