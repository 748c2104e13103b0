"""GPQA-Diamond (Rein et al., arXiv 2311.12022): 198 hard questions with four options, shuffled by a seed.

Two zero-shot formats, both with the paper's closing sentence: direct, and chain of thought. The paper asks a second
time for the letter after the reasoning; here reasoning and letter are one answer. Formats are equivalent to the
official ones and not identical; templates "gpqa_diamond" and "gpqa_diamond:cot" of one's own replace them. The letter
is taken by this project's rules (`choices.chosen_letter`): the closing sentence, else other ways of saying so; the paper's
evaluation looks for a letter in brackets after the word "answer", else for the first one in brackets.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.choices import LETTERS
from sfi_lab.tasks.datasets.multiple_choice import CLOSING, DIRECT, option_fields
from sfi_lab.tasks.datasets.place import Place
from sfi_lab.tasks.datasets.prompts import fill, fitted
from sfi_lab.tasks.datasets.rows import Row, from_hub, have_hub, read_rows, sample, text
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task

PLACE = Place(
    "GPQA-Diamond",
    "gpqa",
    "gpqa_diamond.csv as gpqa/gpqa_diamond.csv",
    "Idavidrein/gpqa",
    ", whose terms have to be accepted there first",
)
FILES = ("gpqa_diamond.csv", "gpqa_diamond*.parquet")
_ASKED = """Question: {question}

Options:
(A) {A}
(B) {B}
(C) {C}
(D) {D}

"""
TEMPLATES = {
    "gpqa_diamond": _ASKED + DIRECT,
    "gpqa_diamond:cot": _ASKED + f"Think it through step by step before you decide. {CLOSING}",
}
NEW_TOKENS = {"gpqa_diamond": 32, "gpqa_diamond:cot": 1024}


@dataclass(frozen=True, slots=True)
class Gpqa(TaskSource):
    """name: "gpqa_diamond" (direct) or "gpqa_diamond:cot"."""

    name: str = "gpqa_diamond"
    data: Path | None = None
    templates: dict[str, str] = field(default_factory=dict)
    generated: bool = False

    def __post_init__(self) -> None:
        if self.name not in TEMPLATES:
            raise SfiError(f"unknown form {self.name!r}; allowed: {', '.join(TEMPLATES)}")
        if not (have_hub() if self.data is None else PLACE.files(self.data, FILES)):
            raise PLACE.missing(self.data)

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        numbered = sample(list(enumerate(self._rows())), n, seed)
        return [fitted(self._task(row, at, seed), tokenizer, limit, max_new_tokens) for at, row in numbered]

    def _rows(self) -> list[Row]:
        if self.data is None:
            return from_hub(PLACE, PLACE.hub, "gpqa_diamond", split="train")
        return [row for path in PLACE.files(self.data, FILES) for row in read_rows(path)]

    def _task(self, row: Row, at: int, seed: int) -> Task:
        options = [text(row, "Correct Answer"), *(text(row, f"Incorrect Answer {i}") for i in (1, 2, 3))]
        order = random.Random(f"gpqa/{seed}/{at}").sample(range(4), 4)
        fields = option_fields(text(row, "Question"), [options[i] for i in order])
        return Task(
            kind=self.name,
            length=0,
            seed=0,
            prompt=fill(self.templates.get(self.name, TEMPLATES[self.name]), fields, self.name),
            answers=(LETTERS[order.index(0)],),
            depths=(),
            max_new_tokens=NEW_TOKENS[self.name],
            name=f"{self.name}-{row.get('Record ID') or at}",
            chat=True,
            metric="choice",
            labels=(("domain", str(row.get("High-level domain", ""))), ("subdomain", str(row.get("Subdomain", "")))),
        )
