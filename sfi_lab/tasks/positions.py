"""Whether a prompt and its whole answer fit into a model's positions, counted on the prompt as a run gives it to the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.tasks.task import Task


def positions(prompt: str, chat: bool, tokenizer: Any) -> int:
    """Positions that a prompt takes in a run: its tokens as a whole, with a chat template (one user message) where `chat` and
    there is one, else with the special tokens that the tokenizer puts around a text.

    The same ids as `sfi_lab.decoder.prompt.encode` gives, counted without a warning at texts beyond the model's limit.
    """
    templated = chat and getattr(tokenizer, "chat_template", None)
    if templated:
        message = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    return len(tokenizer(prompt, add_special_tokens=not templated, verbose=False)["input_ids"])


def excess(task: Task, tokenizer: Any, limit: int) -> int:
    """Positions beyond `limit` that a task's prompt takes with its longest answer; 0 or less where they fit."""
    return positions(task.prompt, task.chat, tokenizer) + task.max_new_tokens - limit


def answering(task: Task, max_new_tokens: int | None) -> Task:
    """The task with another longest answer; itself for None."""
    return task if max_new_tokens is None else replace(task, max_new_tokens=max_new_tokens)


def within(
    build: Callable[[int], Task],
    length: int,
    tokenizer: Any,
    limit: int | None,
    what: str,
    max_new_tokens: int | None = None,
) -> Task:
    """`build(room)`: a task whose prompt measures `room` at most - the length asked for, or what `limit` positions leave of it.

    build: makes the same task again with less text. limit: None for no limit; room is then the length. tokenizer: the
    model's, needed with a limit. what: the task's name in messages. max_new_tokens: the longest answer instead of the
    task's own. The prompt makes room for the shorter of the two: it never gets shorter because a longer answer is wanted.

    Raises SfiError: a length beyond the limit; a limit that leaves too little text for this task.
    """
    if limit is None:
        return answering(build(length), max_new_tokens)
    need_tokenizer(tokenizer, limit, what)
    if length > limit:
        raise SfiError(
            f"{what}: a context of {length} is more than the model's {limit} positions; allowed: up to {limit}"
        )
    room, task = length, build(length)
    answer = min(task.max_new_tokens, max_new_tokens or task.max_new_tokens)
    while (over := excess(answering(task, answer), tokenizer, limit)) > 0:
        room -= over
        refused = f"{what} doesn't fit into the model's {limit} positions, {answer} of which its answer may take"
        if room < 1:
            raise SfiError(f"{refused}: nothing is left for a prompt")
        try:
            task = build(room)
        except SfiError as problem:
            raise SfiError(f"{refused}: {problem}") from None
    return answering(task, max_new_tokens)


def need_tokenizer(tokenizer: Any, limit: int, what: str) -> None:
    """Raises SfiError without a tokenizer."""
    if tokenizer is None:
        raise SfiError(f"{what} is cut to {limit} positions, which needs the model's tokenizer")
