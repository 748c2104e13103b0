"""Prompts of three kinds - text, chat messages, token ids - become token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfi_lab.errors import SfiError

Prompt = str | Sequence[int] | Sequence[dict[str, str]]


def is_chat(prompt: Any) -> bool:
    """True for a list of messages with role and content."""
    return (
        isinstance(prompt, Sequence) and not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], dict)
    )


def encode(tokenizer: Any, prompt: Prompt, vocab_size: int, first_turn: bool = True) -> list[int]:
    """Token ids of a prompt; special tokens (such as a leading BOS) only on the first turn.

    Raises SfiError: an empty prompt, ids outside the vocabulary, messages without role or content, no chat template.
    """
    if isinstance(prompt, str):
        ids = tokenizer(prompt, add_special_tokens=first_turn, verbose=False)["input_ids"] if prompt.strip() else []
    elif is_chat(prompt):
        ids = _render(tokenizer, prompt)
    else:
        ids = _checked_ids(prompt, vocab_size)
    if not ids:
        raise SfiError("the prompt is empty; give text, chat messages or token ids")
    return ids


def _render(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= set(message):
            raise SfiError(f"a chat message needs 'role' and 'content'; got {message!r}")
    if not getattr(tokenizer, "chat_template", None):
        raise SfiError("this model's tokenizer has no chat template; give the prompt as text")
    return list(
        tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=False)
    )


def _checked_ids(prompt: Any, vocab_size: int) -> list[int]:
    try:
        ids = [int(token) for token in prompt]
    except (TypeError, ValueError):
        raise SfiError(f"a prompt is text, chat messages or token ids; got {type(prompt).__name__}") from None
    outside = [token for token in ids if not 0 <= token < vocab_size]
    if outside:
        raise SfiError(f"token id {outside[0]} is outside the vocabulary; allowed: 0 to {vocab_size - 1}")
    return ids


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)
