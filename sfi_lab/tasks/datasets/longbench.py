"""LongBench V1 (Bai et al., arXiv 2308.14508): 21 subsets, each with its format, answer length and metric.

Formats are equivalent to the official ones and not identical (`longbench_subsets.py`); `dataset2prompt.json` given as
templates makes them identical. Decoding is greedy. Few-shot and code subsets are continued without a chat template. A samsum answer
ends at a line break as officially, but never before something was said: the official run forbids it as the first token
(`min_length`), here line breaks and spaces at the beginning are passed over (`sfi_lab.decoder.streaming`). Officially the
first token can't be the end of the text either; here it can, and the answer is empty then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sfi_lab.errors import SfiError
from sfi_lab.tasks.datasets.longbench_subsets import SUBSETS
from sfi_lab.tasks.datasets.place import Place
from sfi_lab.tasks.datasets.prompts import fill, fitted
from sfi_lab.tasks.datasets.rows import Row, from_hub, have_hub, number, read_rows, read_zipped, sample, text, texts
from sfi_lab.tasks.metrics import CHINESE
from sfi_lab.tasks.segmentation import need_segmentation
from sfi_lab.tasks.source import TaskSource
from sfi_lab.tasks.task import Task

PLACE = Place(
    "LongBench",
    "longbench",
    "data.zip as distributed, or the SUBSET.jsonl files in it, as longbench/SUBSET.jsonl,",
    "THUDM/LongBench",
)


@dataclass(frozen=True, slots=True)
class LongBench(TaskSource):
    """One subset. data: the folder of local copies; None: through the hub. templates: one's own, by subset."""

    subset: str
    data: Path | None = None
    templates: dict[str, str] = field(default_factory=dict)
    generated: bool = False

    def __post_init__(self) -> None:
        if self.subset not in SUBSETS:
            raise SfiError(f"LongBench has no subset {self.subset!r}; allowed: {', '.join(SUBSETS)}")
        if SUBSETS[self.subset].metric in CHINESE:
            need_segmentation(self.name)
        if self.data is not None and self._local() is None:
            others = [path.name for path in PLACE.files(self.data, ("*.jsonl",)) if path.stem in SUBSETS]
            there = f"{', '.join(others)} and" if others else "no data.zip and"
            lacking = f"{there} no {self.subset}.jsonl"
            raise PLACE.missing(self.data, lacking, f"'s {self.subset}")
        if self.data is None and not have_hub():
            raise PLACE.missing(None)

    @property
    def name(self) -> str:
        return f"longbench:{self.subset}"

    def tasks(self, lengths, n, seed, count, tokenizer=None, limit=None, max_new_tokens=None) -> list[Task]:
        numbered = sample(list(enumerate(self._rows())), n, seed)
        return [fitted(self._task(row, at), tokenizer, limit, max_new_tokens) for at, row in numbered]

    def _local(self) -> Path | None:
        """The subset's file, or an archive that should hold it."""
        return next(iter(PLACE.files(self.data, (f"{self.subset}.jsonl", "data.zip"))), None)

    def _rows(self) -> list[Row]:
        if (
            self.data is None
        ):  # the repository's loading script is no longer run by `datasets`; its archive is read instead
            archive = f"zip://data/{self.subset}.jsonl::hf://datasets/{PLACE.hub}/data.zip"
            return from_hub(PLACE, "json", data_files={"test": archive}, split="test")
        found = self._local()
        return read_zipped(found, f"data/{self.subset}.jsonl") if found.suffix == ".zip" else read_rows(found)

    def _task(self, row: Row, at: int) -> Task:
        subset, what = SUBSETS[self.subset], self.name
        fields = {"context": text(row, "context"), "input": text(row, "input")}
        return Task(
            kind=what,
            length=0,
            seed=0,
            prompt=fill(self.templates.get(self.subset, subset.template), fields, what),
            answers=texts(row, "answers"),
            depths=(),
            max_new_tokens=subset.max_new_tokens,
            name=f"{what}-{row.get('_id') or at}",
            chat=not subset.examples,
            stop=subset.stop,
            metric=subset.metric,
            first_line=subset.first_line,
            classes=texts(row, "all_classes") if row.get("all_classes") or subset.metric == "classification" else (),
            labels=(("language", str(row.get("language", ""))), ("length", _band(number(row, "length")))),
        )


def _band(length: int) -> str:
    """LongBench-E's bands of a row's length, in words or Chinese characters."""
    return "0-4k" if length < 4000 else "4-8k" if length < 8000 else "8k+"
