"""A retrieval task and its exact score."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    prompt: the text, which ends with the first words of the answer, so that a small model knows what is asked.
    answers: what a right continuation holds, each once. depths: where the facts begin, as shares of the prompt's characters.
    max_new_tokens: enough for the answer. length: the length asked for, in units of the caller's `count`.
    """

    kind: str
    length: int
    seed: int
    prompt: str
    answers: tuple[str, ...]
    depths: tuple[float, ...]
    max_new_tokens: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.length}-{self.seed}"


def score(task: Task, text: str) -> float:
    """Share of the answers that stand in the continuation as whole words or numbers, from 0 to 1."""
    found = [re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None for answer in task.answers]
    return sum(found) / len(found)
