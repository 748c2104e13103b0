"""What a study runs on: the project's prompts, stretches of Python's documentation, retrieval tasks, files of one's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sfi_lab.errors import SfiError
from sfi_lab.tasks import KINDS, Haystack, Task, make
from sfi_lab.text import prompt, prompt_names, prompt_text, pydoc_document

if TYPE_CHECKING:
    from sfi_lab.lab import Lab

DEFAULT = "project,pydoc:6,tasks:4"


@dataclass(frozen=True, slots=True)
class Material:
    """One prompt of a study. ids: prompt token ids; given: ids of the text that really follows (documents), else ()."""

    name: str
    kind: str
    ids: tuple[int, ...]
    given: tuple[int, ...] = ()
    task: Task | None = None


def gather(lab: Lab, what: str = DEFAULT, prompt_tokens: int = 1200, new_tokens: int = 128) -> list[Material]:
    """The material named by a comma-separated list.

    "project" is every prompt of `data/prompts`; "pydoc:N" N stretches of documentation, each with the text that
    follows; "tasks:N" N retrieval tasks, kinds in turn; else the name of a project prompt, of a task kind
    ("single_needle" or "single_needle:LENGTH:SEED"), "sweep:L:L:…" every task kind at these lengths, or a text file. Prompts longer than `prompt_tokens` keep their end.

    Raises SfiError for a name that is none of these.
    """
    found: list[Material] = []
    for item in [part.strip() for part in what.split(",") if part.strip()]:
        found += _one(lab, item, prompt_tokens, new_tokens)
    if not found:
        raise SfiError("no prompt was named; allowed: project, pydoc:N, tasks:N, prompt names, task kinds, text files")
    return list({m.name: m for m in found}.values())


def _one(lab: Lab, item: str, prompt_tokens: int, new_tokens: int) -> list[Material]:
    head, _, rest = item.partition(":")
    if item == "project":
        return [_project(lab, name, prompt_tokens) for name in prompt_names()]
    if head == "pydoc":
        return _documents(lab, _count(item, rest), prompt_tokens, new_tokens)
    if head == "tasks":
        return _tasks(lab, _count(item, rest), prompt_tokens)
    if head == "sweep":
        lengths = [_count(item, part) for part in rest.split(":")]
        return [_task(lab, make(kind, length, 0, counter(lab))) for length in lengths for kind in KINDS]
    if head in KINDS:
        numbers = rest.split(":") if rest else []
        if not all(number.isdigit() for number in numbers) or len(numbers) > 2:
            raise SfiError(f"{item!r} is not a task; allowed: {head}, {head}:LENGTH or {head}:LENGTH:SEED")
        length, seed = ([int(number) for number in numbers] + [prompt_tokens, 0][len(numbers) :])[:2]
        return [_task(lab, make(head, length, seed, counter(lab)))]
    if item in prompt_names():
        return [_project(lab, item, prompt_tokens)]
    if Path(item).is_file():
        text = prompt_text(Path(item).read_text(encoding="utf-8"))
        return [Material(Path(item).stem, "file", _tail(lab, text, prompt_tokens))]
    raise SfiError(
        f"{item!r} is no prompt; allowed: project, pydoc:N, tasks:N, sweep:L:L, {', '.join(KINDS)}, a text file, or one of {', '.join(prompt_names())}"
    )


def counter(lab: Lab):
    """Length of a text in the model's tokens."""
    return lambda text: len(lab.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _count(item: str, rest: str) -> int:
    if not rest.isdigit() or int(rest) < 1:
        raise SfiError(f"{item!r} needs a number from 1, as in {item.split(':')[0]}:6")
    return int(rest)


def _tail(lab: Lab, text: str, limit: int) -> tuple[int, ...]:
    return tuple(lab.tokenizer(text, verbose=False)["input_ids"][-limit:])


def _project(lab: Lab, name: str, limit: int) -> Material:
    found = prompt(name)
    return Material(name, f"{found.kind} ({found.language})", _tail(lab, found.text + "\n\n", limit))


def _task(lab: Lab, task: Task) -> Material:
    return Material(task.name, "task", tuple(lab.tokenizer(task.prompt, verbose=False)["input_ids"]), task=task)


def _tasks(lab: Lab, n: int, length: int) -> list[Material]:
    hay, count, kinds = Haystack(counter(lab)), counter(lab), list(KINDS)
    return [_task(lab, make(kinds[i % len(kinds)], length, i // len(kinds), count, hay)) for i in range(n)]


def _documents(lab: Lab, n: int, prompt_tokens: int, new_tokens: int) -> list[Material]:
    """Stretches that don't overlap, from places drawn once; each begins with a sentence."""
    sentences = pydoc_document().split(". ")
    slots = len(sentences) // n
    rng = random.Random(0)
    return [
        _document(lab, sentences, i * slots + rng.randrange(max(1, slots // 4)), prompt_tokens, new_tokens, i)
        for i in range(n)
    ]


def _document(
    lab: Lab, sentences: Sequence[str], start: int, prompt_tokens: int, new_tokens: int, number: int
) -> Material:
    flat: list[int] = []
    for sentence in sentences[start:] + sentences[:start]:
        flat += lab.tokenizer(sentence + ". ", add_special_tokens=False, verbose=False)["input_ids"]
        if len(flat) >= prompt_tokens + new_tokens:
            break
    if len(flat) < prompt_tokens + new_tokens:
        raise SfiError(f"the documentation is shorter than {prompt_tokens + new_tokens} tokens")
    given = tuple(flat[prompt_tokens : prompt_tokens + new_tokens])
    return Material(f"pydoc-{number}", "documentation", tuple(flat[:prompt_tokens]), given)
