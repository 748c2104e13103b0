"""LongBench V2 (Bai et al., arXiv 2412.15204): four options on a long context; accuracy by difficulty and by length.

The prompt has the official zero-shot format's parts (the text between tags, question, options, the sentence to reply
with) in this project's words, so it is equivalent and not identical; the official `0shot.txt` may be given as the
template "longbench_v2", its $DOC$, $Q$ and $C_A$ are understood. The letter is taken with the official patterns: from
"The correct answer is (X)", else from "The correct answer is X", in just these words, and from nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.choices import LETTERS
from sfi_lab.tasks.datasets.multiple_choice import DIRECT, option_fields
from sfi_lab.tasks.datasets.place import Place
from sfi_lab.tasks.datasets.prompts import fill, fitted
from sfi_lab.tasks.datasets.rows import Row, from_hub, have_hub, read_rows, sample, text
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task

PLACE = Place("LongBench V2", "longbench_v2", "data.json as longbench_v2/data.json", "THUDM/LongBench-v2")
FILES = ("data.json", "data.jsonl", "*.parquet")
PARTS = {"easy": "difficulty", "hard": "difficulty", "short": "length", "medium": "length", "long": "length"}
TEMPLATE = f"""Read the text below; a question about it follows.

<text>
{{context}}
</text>

Question: {{question}}
Options:
(A) {{A}}
(B) {{B}}
(C) {{C}}
(D) {{D}}

{DIRECT}"""


@dataclass(frozen=True, slots=True)
class LongBenchV2(TaskSource):
    """All questions, or those of one part: easy, hard, short, medium, long."""

    part: str = ""
    data: Path | None = None
    templates: dict[str, str] = field(default_factory=dict)
    generated: bool = False

    def __post_init__(self) -> None:
        if self.part and self.part not in PARTS:
            raise SfiError(f"LongBench V2 has no part {self.part!r}; allowed: {', '.join(PARTS)}")
        if not (have_hub() if self.data is None else PLACE.files(self.data, FILES)):
            raise PLACE.missing(self.data)

    @property
    def name(self) -> str:
        return "longbench_v2" + (f":{self.part}" if self.part else "")

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        rows = [row for row in self._rows() if not self.part or text(row, PARTS[self.part]) == self.part]
        if not rows:
            raise SfiError(f"{self.name}: no row has {PARTS[self.part]} {self.part!r}")
        return [fitted(self._task(row), tokenizer, limit, max_new_tokens) for row in sample(rows, n, seed)]

    def _rows(self) -> list[Row]:
        if self.data is None:
            return from_hub(PLACE, PLACE.hub, split="train")
        return [row for path in PLACE.files(self.data, FILES) for row in read_rows(path)]

    def _task(self, row: Row) -> Task:
        options = [text(row, f"choice_{letter}") for letter in LETTERS]
        fields = option_fields(text(row, "question"), options, text(row, "context"))
        return Task(
            kind=self.name,
            length=0,
            seed=0,
            prompt=fill(self.templates.get("longbench_v2", TEMPLATE), fields, self.name),
            answers=(text(row, "answer", LETTERS),),
            depths=(),
            max_new_tokens=128,
            name=f"{self.name}-{text(row, '_id')}",
            chat=True,
            metric="stated_choice",
            labels=tuple((label, str(row.get(label, ""))) for label in ("difficulty", "length", "domain")),
        )
