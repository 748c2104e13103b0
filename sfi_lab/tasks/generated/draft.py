"""What a kind of generated task makes: everything of a `Task` but its name, length and seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """Fields as in `Task`. stop: where the answer ends, if the prompt's frame has the model go on with the next item."""

    prompt: str
    answers: tuple[str, ...]
    depths: tuple[float, ...]
    max_new_tokens: int
    stop: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    scoring: str = "answers"
    chat: bool = False
