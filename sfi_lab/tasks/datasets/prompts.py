"""Prompt templates of data sets, a user's own ones instead of them, and cutting to fit a model's context."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.tasks.positions import answering, excess, need_tokenizer
from sfi_lab.tasks.task import Task

LEAST_PROMPT = 32  # positions: a prompt cut to less than that asks nothing
_NAMED = re.compile(r"\{(\w+)\}|\$(\w+)\$")


def read_templates(path: Path | None, names: Sequence[str]) -> dict[str, str]:
    """Templates of one's own by task name, from a JSON object; {} for None.

    names: those allowed. LongBench's `dataset2prompt.json` is one such file: its names are those of the subsets. Raises
    SfiError for a file that is no object of texts, or has a name that isn't allowed.
    """
    if path is None:
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise SfiError(f"the templates file {path} can't be read as JSON: {problem}") from problem
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise SfiError(f"the templates file {path} must be one JSON object, task name to template text")
    if unknown := [name for name in found if name not in names]:
        raise SfiError(
            f"the templates file {path} has {unknown[0]!r}, which no task is called; allowed: {', '.join(names)}"
        )
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
    return text if len(ids) <= limit else _ends(ids, limit, tokenizer)


def fitted(task: Task, tokenizer: Any, limit: int | None, max_new_tokens: int | None = None) -> Task:
    """The task, its prompt cut in the middle so that it, its answer and what a run adds to it fit into `limit` positions.

    Counted on the prompt as it is given to the model: with the chat template where `chat`, with special tokens. None: uncut.
    max_new_tokens: the longest answer, instead of the task's own. Raises SfiError where fewer than `LEAST_PROMPT` positions
    are left for the prompt.
    """
    task = answering(task, max_new_tokens)
    if limit is None:
        return task
    need_tokenizer(tokenizer, limit, task.kind)
    ids = tokenizer(task.prompt, add_special_tokens=False, verbose=False)["input_ids"]
    kept, cut = len(ids), task
    over = (
        kept + task.max_new_tokens - limit
    )  # before a template is counted: the whole of a long text is tokenized once
    while over > 0 or (over := excess(cut, tokenizer, limit)) > 0:
        kept, over = kept - over, 0
        if kept < LEAST_PROMPT:
            raise SfiError(
                f"{task.kind} has no room for a prompt: its answer may take {task.max_new_tokens} of the model's {limit} "
                f"positions, and {max(kept, 0)} are left; {LEAST_PROMPT} are the least"
            )
        cut = replace(task, prompt=_ends(ids, kept, tokenizer))
    return cut


def _ends(ids: Sequence[int], kept: int, tokenizer: Any) -> str:
    """The first and the last kept // 2 tokens, decoded."""
    half = kept // 2
    return "".join(tokenizer.decode(part, skip_special_tokens=True) for part in (ids[:half], ids[len(ids) - half :]))
