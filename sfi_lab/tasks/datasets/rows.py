"""Rows of a data set's files: JSON, JSON lines, CSV and Parquet from a folder, or through Hugging Face `datasets`."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import random
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfi_lab.errors import SfiError

Row = dict[str, Any]
EXTRA = "pip install 'sfi-lab[datasets]'"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a data set is found: below `folder` of the data directory, or on the hub.

    what: its name in messages. layout: the files as distributed, for messages. hub: repository id. advice: how to get it.
    """

    what: str
    folder: str
    layout: str
    hub: str
    advice: str = ""

    def files(self, data: Path, patterns: Sequence[str]) -> list[Path]:
        """Files of the first pattern that matches any, sorted; looked for in DATA/FOLDER, DATA/FOLDER/data and DATA."""
        for root in (data / self.folder, data / self.folder / "data", data, data / "data"):
            for pattern in patterns:
                if found := sorted(root.glob(pattern)):
                    return found
        return []

    def missing(self, data: Path | None) -> SfiError:
        """The sentence that says how to get it."""
        where = "no data folder was given" if data is None else f"{data} has none of its files"
        return SfiError(
            f"{self.what} is not here: {where}. Put {self.layout} (from {self.hub} on the Hugging Face hub{self.advice}) "
            f"into a folder and name that folder, or install the loader and give no folder: {EXTRA}"
        )


def have_hub() -> bool:
    """Whether Hugging Face `datasets` is installed."""
    return importlib.util.find_spec("datasets") is not None


def from_hub(place: Place, *names: str, split: str, **options: Any) -> list[Row]:
    """All rows of a split through `datasets.load_dataset`. Raises SfiError: not installed, or the hub's refusal in its words."""
    if not have_hub():
        raise place.missing(None)
    from datasets import load_dataset

    try:
        return [dict(row) for row in load_dataset(*names, split=split, **options)]
    except Exception as problem:  # of many libraries' kinds: no network, gated, renamed
        said = str(problem).strip().split("\n")[0]
        raise SfiError(
            f"{place.what} could not be loaded from {place.hub}: {type(problem).__name__}: {said}. A local copy works "
            f"too: put {place.layout} into a folder and name that folder"
        ) from problem


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[Row]:
    """Rows of a .jsonl, .json (a list), .csv or .parquet file.

    columns: names for a CSV file without a heading. Raises SfiError for a file that is not what its ending says.
    """
    try:
        if path.suffix == ".parquet":
            import polars

            return polars.read_parquet(path).to_dicts()
        return list(_parsed(path.suffix, path.read_text(encoding="utf-8-sig"), columns))
    except (OSError, ValueError, csv.Error) as problem:
        raise SfiError(f"{path} can't be read as {path.suffix[1:]}: {problem}") from problem


def read_zipped(archive: Path, member: str) -> list[Row]:
    """Rows of a file in a zip archive. Raises SfiError where it isn't in there."""
    try:
        with zipfile.ZipFile(archive) as opened:
            return list(_parsed(Path(member).suffix, opened.read(member).decode("utf-8"), None))
    except (KeyError, ValueError, zipfile.BadZipFile) as problem:
        raise SfiError(f"{archive} has no readable {member}: {problem}") from problem


def _parsed(suffix: str, text: str, columns: Sequence[str] | None) -> Iterator[Row]:
    if suffix == ".jsonl":
        # not splitlines(): a JSON string may hold U+2028 and its like as they are
        yield from (json.loads(line) for line in text.split("\n") if line.strip())
    elif suffix == ".json":
        rows = json.loads(text)
        yield from rows if isinstance(rows, list) else [rows]
    elif suffix == ".csv":
        yield from csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns)
    else:
        raise SfiError(f"no reader for {suffix or 'files without an ending'}; allowed: .jsonl, .json, .csv, .parquet")


def field(row: Row, name: str, what: str) -> Any:
    """A column's value. Raises SfiError that names the columns there are."""
    if name not in row:
        raise SfiError(f"a row of {what} has no {name!r}; it has: {', '.join(map(str, row))}")
    return row[name]


def sample(rows: Sequence[Any], n: int, seed: int) -> list[Any]:
    """`n` of the rows drawn without replacement, in their order; all of them where n is 0 or more than there are."""
    if n <= 0 or n >= len(rows):
        return list(rows)
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), n))]
