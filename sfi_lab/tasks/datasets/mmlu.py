"""MMLU (Hendrycks et al., arXiv 2009.03300): questions of 57 subjects with four options, five examples before each.

The examples are the first five of the subject's dev questions, in their order; the prompt ends with "Answer:", and the
letter is the first capital A-D that stands by itself in the four tokens that the model says next, greedily (the paper
compares the four letters' probabilities instead). The format
is equivalent to the official one and not identical; templates "mmlu" (the heading, with {subject}) and "mmlu:question"
(one question up to "Answer:", with {question}, {A} … {D}) of one's own replace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.choices import LETTERS
from sfi_lab.tasks.datasets.multiple_choice import option_fields
from sfi_lab.tasks.datasets.place import Place
from sfi_lab.tasks.datasets.prompts import fill, fitted
from sfi_lab.tasks.datasets.rows import Row, from_hub, have_hub, number, read_rows, sample, text, texts
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

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        asked = [(subject, at, row) for subject, rows in self._split("test").items() for at, row in enumerate(rows)]
        shots = self._split("dev")
        found = [
            self._task(subject, at, row, shots.get(subject, ())[:SHOTS]) for subject, at, row in sample(asked, n, seed)
        ]
        return [fitted(task, tokenizer, limit, max_new_tokens) for task in found]

    def _split(self, split: str) -> dict[str, list[dict[str, str]]]:
        """Rows by subject, as columns question, A … D, answer (a letter)."""
        if self.data is None:
            found: dict[str, list[dict[str, str]]] = {}
            for row in from_hub(PLACE, PLACE.hub, self.subject or "all", split=split):
                found.setdefault(self.subject or text(row, "subject"), []).append(_plain(row))
            return found
        subjects = [self.subject] if self.subject else _subjects(self.data)
        return {
            subject: [_plain(row) for path in _files(self.data, subject, split) for row in read_rows(path, COLUMNS)]
            for subject in subjects
        }

    def _task(self, subject: str, at: int, row: dict[str, str], shots: Sequence[dict[str, str]]) -> Task:
        if len(shots) < SHOTS:
            raise SfiError(f"MMLU's {subject} has {len(shots)} dev questions here; {SHOTS} are the examples")
        template = self.templates.get("mmlu:question", QUESTION)
        asked = [
            fill(template, option_fields(shot["question"], [shot[x] for x in LETTERS]), self.name)
            for shot in (*shots, row)
        ]
        heading = fill(self.templates.get("mmlu", HEADING), {"subject": subject.replace("_", " ")}, self.name)
        answered = [f"{shown} {shot['answer']}\n\n" for shown, shot in zip(asked[:-1], shots, strict=True)]
        return Task(
            kind=self.name,
            length=0,
            seed=0,
            prompt=heading + "".join(answered) + asked[-1],
            answers=(row["answer"],),
            depths=(),
            max_new_tokens=4,
            name=f"{self.name}-{at}" if self.subject else f"{self.name}-{subject}-{at}",
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


def _plain(row: Row) -> dict[str, str]:
    """Columns question, A … D, answer: the hub has a list of choices and the answer's number, the CSV files a column each and its letter."""
    if "choices" not in row:
        return {name: text(row, name, LETTERS if name == "answer" else None) for name in COLUMNS}
    options = dict(zip(LETTERS, texts(row, "choices", 4), strict=True))
    return {"question": text(row, "question"), **options, "answer": LETTERS[number(row, "answer", 0, 3)]}
