"""MMLU (Hendrycks et al., arXiv 2009.03300): questions of 57 subjects with four options, five examples before each.

The examples are the first five of the subject's dev questions, in their order; the prompt ends with "Answer:", and the
letter is what the model says next, greedily (the paper compares the four letters' probabilities instead). The format
is equivalent to the official one and not identical; templates "mmlu" (the heading, with {subject}) and "mmlu:question"
(one question up to "Answer:", with {question}, {A} … {D}) of one's own replace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.choices import LETTERS
from sfi_lab.tasks.datasets.multiple_choice import option_fields
from sfi_lab.tasks.datasets.prompts import fill, fitted
from sfi_lab.tasks.datasets.rows import Place, Row, from_hub, have_hub, read_rows, sample
from sfi_lab.tasks.datasets.rows import field as column
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task

PLACE = Place(
    "MMLU",
    "mmlu",
    "the dev and test folders of data.tar as mmlu/dev/SUBJECT_dev.csv and mmlu/test/SUBJECT_test.csv, "
    "or the hub's mmlu/SUBJECT/dev-*.parquet and mmlu/SUBJECT/test-*.parquet,",
    "cais/mmlu",
)
HEADING = "Here are multiple-choice questions on {subject}, each with its answer.\n\n"
QUESTION = "{question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"
COLUMNS = ("question", *LETTERS, "answer")  # the CSV files have no heading
SHOTS = 5


@dataclass(frozen=True, slots=True)
class Mmlu(TaskSource):
    """subject: as in the files' names, such as "abstract_algebra"; "" for all of them."""

    subject: str = ""
    data: Path | None = None
    templates: dict[str, str] = field(default_factory=dict)
    generated: bool = False

    def __post_init__(self) -> None:
        if self.data is None:
            if not have_hub():
                raise PLACE.missing(None)
            return
        there = _subjects(self.data)
        if not there:
            raise PLACE.missing(self.data)
        if self.subject and self.subject not in there:
            raise SfiError(f"{self.data} has no MMLU subject {self.subject!r}; it has: {', '.join(there)}")

    @property
    def name(self) -> str:
        return "mmlu" + (f":{self.subject}" if self.subject else "")

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None) -> list[Task]:
        asked = [
            (subject, number, row) for subject, rows in self._split("test").items() for number, row in enumerate(rows)
        ]
        shots = self._split("dev")
        build = partial(self._task, tokenizer=tokenizer, limit=limit)
        return [
            build(subject, number, row, shots.get(subject, ())[:SHOTS])
            for subject, number, row in sample(asked, n, seed)
        ]

    def _split(self, split: str) -> dict[str, list[Row]]:
        """Rows by subject, as columns question, A … D, answer (a letter)."""
        if self.data is None:
            found: dict[str, list[Row]] = {}
            for row in from_hub(PLACE, PLACE.hub, self.subject or "all", split=split):
                found.setdefault(self.subject or column(row, "subject", self.name), []).append(_plain(row))
            return found
        subjects = [self.subject] if self.subject else _subjects(self.data)
        return {
            subject: [_plain(row) for path in _files(self.data, subject, split) for row in read_rows(path, COLUMNS)]
            for subject in subjects
        }

    def _task(self, subject: str, number: int, row: Row, shots: Sequence[Row], tokenizer, limit: int | None) -> Task:
        if len(shots) < SHOTS:
            raise SfiError(f"MMLU's {subject} has {len(shots)} dev questions here; {SHOTS} are the examples")
        template = self.templates.get("mmlu:question", QUESTION)
        texts = [
            fill(template, option_fields(shot["question"], [shot[x] for x in LETTERS]), self.name)
            for shot in (*shots, row)
        ]
        heading = fill(self.templates.get("mmlu", HEADING), {"subject": subject.replace("_", " ")}, self.name)
        answered = [f"{text} {shot['answer']}\n\n" for text, shot in zip(texts[:-1], shots, strict=True)]
        return Task(
            kind=self.name,
            length=0,
            seed=0,
            prompt=fitted(heading + "".join(answered) + texts[-1], limit, 4, False, tokenizer, self.name),
            answers=(row["answer"],),
            depths=(),
            max_new_tokens=4,
            name=f"mmlu-{subject}-{number}",
            metric="letter",
            labels=(("subject", subject),),
        )


def _files(data: Path, subject: str, split: str) -> list[Path]:
    return PLACE.files(
        data, (f"{split}/{subject}_{split}.csv", f"{subject}/{split}-*.parquet", f"{subject}_{split}.csv")
    )


def _subjects(data: Path) -> list[str]:
    """Subjects that have a test file."""
    tables = PLACE.files(data, ("test/*_test.csv", "*_test.csv"))
    return sorted(path.name.removesuffix("_test.csv") for path in tables) or sorted(
        {path.parent.name for path in PLACE.files(data, ("*/test-*.parquet",))}
    )


def _plain(row: Row) -> Row:
    """The hub has a list of choices and the answer's number; the CSV files a column each and its letter."""
    if "choices" not in row:
        return row
    return {
        "question": row["question"],
        **dict(zip(LETTERS, row["choices"], strict=True)),
        "answer": LETTERS[row["answer"]],
    }
