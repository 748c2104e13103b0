"""Prompt templates of data sets, a user's own ones instead of them, and cutting to fit a model's context."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfi_lab.errors import SfiError

CHAT_ROOM = 64  # positions kept free for what a chat template puts around a prompt
_NAMED = re.compile(r"\{(\w+)\}|\$(\w+)\$")


def read_templates(path: Path | None) -> dict[str, str]:
    """Templates of one's own by task name, from a JSON object; {} for None.

    LongBench's `dataset2prompt.json` is one such file: its names are those of the subsets. Other names: "longbench_v2",
    "gpqa_diamond", "gpqa_diamond:cot", "mmlu". Raises SfiError for a file that is no object of texts.
    """
    if path is None:
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise SfiError(f"the templates file {path} can't be read as JSON: {problem}") from problem
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise SfiError(f"the templates file {path} must be one JSON object, task name to template text")
    return found


def fill(template: str, fields: Mapping[str, Any], what: str) -> str:
    """The template with {name} or $NAME$ replaced by the fields; braces around anything else stay as they are.

    Raises SfiError for a $NAME$ or {name} in the template that no field has.
    """

    def value(match: re.Match) -> str:
        name = match[1] or match[2]
        if name not in fields:
            raise SfiError(f"the template of {what} asks for {match[0]}; allowed: {', '.join(fields)}")
        return str(fields[name])

    return _NAMED.sub(value, template)


def cut_middle(text: str, limit: int, tokenizer: Any) -> str:
    """The text if it has at most `limit` tokens, else its first and last limit // 2 tokens, decoded.

    LongBench's way (arXiv 2308.14508): instructions stand at both ends. tokenizer: called with the text it gives
    `input_ids`, and it has `decode`, as transformers' tokenizers do.
    """
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if len(ids) <= limit:
        return text
    half = limit // 2
    if half < 1:
        raise SfiError(f"no room for a prompt: {limit} positions are left for it")
    return "".join(tokenizer.decode(part, skip_special_tokens=True) for part in (ids[:half], ids[-half:]))


def fitted(text: str, limit: int | None, new_tokens: int, chat: bool, tokenizer: Any, what: str) -> str:
    """The prompt cut in the middle so that it, its answer and a chat template fit into `limit` positions; None: uncut."""
    if limit is None:
        return text
    if tokenizer is None:
        raise SfiError(f"{what} is cut to {limit} positions, which needs the model's tokenizer")
    return cut_middle(text, limit - new_tokens - (CHAT_ROOM if chat else 0), tokenizer)
