"""Every task by its name: from a comma-separated list to task sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.datasets.gpqa import TEMPLATES as GPQA_FORMS
from sfi_lab.tasks.datasets.gpqa import Gpqa
from sfi_lab.tasks.datasets.longbench import LongBench
from sfi_lab.tasks.datasets.longbench_subsets import SUBSETS
from sfi_lab.tasks.datasets.longbench_v2 import LongBenchV2
from sfi_lab.tasks.datasets.mmlu import Mmlu
from sfi_lab.tasks.datasets.prompts import read_templates
from sfi_lab.tasks.generated.table import ALIASES, GENERATED
from sfi_lab.tasks.given_text import GivenText
from sfi_lab.tasks.source import GeneratedSource, TaskSource
from sfi_lab.tasks.task import Task

# What each name is, for help texts; capitals stand for what is filled in.
NAMES: dict[str, str] = {
    "single_needle": "a number hidden in the text; single_needle@DEPTH pins it at a share of the text from 0 to 1",
    "multi_key": "four such numbers under different names, one asked for (multi_needle is the same)",
    "multi_value": "three numbers under one name, all asked for",
    "multi_query": "six numbers under different names, three asked for at once",
    "variable_tracking": "a chain of assignments, all variables with the first value asked for",
    "common_words": "the most common words of a list spread through the text",
    "fact_qa": "a question over nine facts in the text, which needs one or two of them; fact_qa:1, fact_qa:2 one kind only",
    "long_story": "640 tokens of a story, after notes for it",
    "long_proof": "640 tokens of a proof, after lemmas for it",
    "perplexity:FILE": "teacher-forced text of a file; perplexity:pydoc is Python's documentation",
    "longbench:SUBSET": f"LongBench V1; SUBSET is one of {', '.join(SUBSETS)}, or all",
    "longbench_v2": "LongBench V2; longbench_v2:PART is its easy, hard, short, medium or long part",
    "gpqa_diamond": "GPQA-Diamond, direct; gpqa_diamond:cot with a chain of thought",
    "mmlu": "MMLU with five examples; mmlu:SUBJECT is one subject",
}

_CALLED = {studied: name for name, studied in ALIASES.items()}  # kinds that the recorded studies call otherwise
TEMPLATE_NAMES = (*SUBSETS, "longbench_v2", *GPQA_FORMS, "mmlu", "mmlu:question")  # what a templates file may name


def parse_tasks(names: str, data: Path | None = None, templates: Path | None = None) -> list[TaskSource]:
    """Task sources of a comma-separated list of names (`NAMES`), each once, in order; a second name for the same is the same.

    data: a folder with local copies of data sets; None: data sets come through the hub. templates: a JSON file of prompt
    templates to use instead of this project's (`datasets.prompts.read_templates`).

    Raises SfiError: an unknown name, with those allowed; data that isn't there, with how to get it.
    """
    own = read_templates(templates, TEMPLATE_NAMES)
    data = None if data is None else Path(data)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise SfiError(f"no task was named; allowed: {_allowed()}")
    found = [source for name in wanted for source in _sources(name, data, own)]
    chosen: dict[str, TaskSource] = {}
    for source in found:
        chosen.setdefault(source.key, source)
    return list(chosen.values())


def accuracy_by(tasks: Sequence[Task], scores: Sequence[float], label: str) -> dict[str, tuple[float, int]]:
    """Mean score and number of tasks by the value of a label ("difficulty", "length", "subject", "hops", …), sorted.

    Tasks without that label are left out. Raises SfiError where tasks and scores differ in number.
    """
    if len(tasks) != len(scores):
        raise SfiError(f"{len(tasks)} tasks need as many scores; got {len(scores)}")
    groups: dict[str, list[float]] = {}
    for task, score in zip(tasks, scores, strict=True):
        if (value := dict(task.labels).get(label)) is not None:
            groups.setdefault(value, []).append(score)
    return {value: (sum(part) / len(part), len(part)) for value, part in sorted(groups.items())}


def _sources(name: str, data: Path | None, templates: dict[str, str]) -> list[TaskSource]:
    head, colon, rest = name.partition(":")
    if name.startswith("single_needle@"):
        depth = _depth(name)
        return [GeneratedSource(f"single_needle@{depth:g}", "single_needle", depth=depth)]
    if name in GENERATED or name in ALIASES:
        known = _CALLED.get(name, name)
        return [GeneratedSource(known, known)]
    if head == "perplexity" and rest:
        return [GivenText(rest)]
    if head == "longbench" and rest:
        return [LongBench(subset, data, templates) for subset in (SUBSETS if rest == "all" else [rest])]
    if head == "longbench_v2" and bool(colon) == bool(rest):
        return [LongBenchV2(rest, data, templates)]
    if name in ("gpqa_diamond", "gpqa_diamond:cot"):
        return [Gpqa(name, data, templates)]
    if head == "mmlu" and bool(colon) == bool(rest):
        return [Mmlu(rest, data, templates)]
    raise SfiError(f"{name!r} is no task; allowed: {_allowed()}")


def _depth(name: str) -> float:
    try:
        depth = float(name.partition("@")[2])
    except ValueError:
        depth = -1.0
    if not 0 <= depth <= 1:
        raise SfiError(f"{name!r}: the depth is a number from 0 to 1, as in single_needle@0.25")
    return float(f"{depth:g}") + 0.0  # as its name says it: 0.250 is 0.25 and -0 is 0


def _allowed() -> str:
    return ", ".join([*NAMES, "single_needle@DEPTH", "gpqa_diamond:cot", "mmlu:SUBJECT"])
