"""Rows of a data set's files: JSON, JSON lines, CSV and Parquet from a folder, or through Hugging Face `datasets`."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import random
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.tasks.datasets.place import Place


class Row(dict[str, Any]):
    """One row by its columns, and where it stands: "FILE, row N" for messages, counted from 1."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where


def have_hub() -> bool:
    """Whether Hugging Face `datasets` is installed."""
    return importlib.util.find_spec("datasets") is not None


def from_hub(place: Place, *names: str, split: str, **options: Any) -> list[Row]:
    """All rows of a split through `datasets.load_dataset`.

    Raises SfiError: not installed, the hub's refusal in its words, a split without rows.
    """
    if not have_hub():
        raise place.missing(None)
    from datasets import load_dataset

    try:
        found = [dict(row) for row in load_dataset(*names, split=split, **options)]
    except Exception as problem:  # of many libraries' kinds: no network, gated, renamed
        said = str(problem).strip().split("\n")[0]
        raise SfiError(
            f"{place.what} could not be loaded from {place.hub}: {type(problem).__name__}: {said}. A local copy works "
            f"too: put {place.layout} into a folder and name that folder"
        ) from problem
    return _rows(found, f"{place.hub} ({split})")


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[Row]:
    """Rows of a .jsonl, .json (a list), .csv or .parquet file.

    columns: names for a CSV file without a heading, which then has exactly these. Raises SfiError for a file that is not
    what its ending says, or has no rows.
    """
    try:
        if path.suffix == ".parquet":
            return _rows(_parquet(path), str(path))
        return _rows(_parsed(path.suffix, path.read_text(encoding="utf-8-sig"), columns), str(path))
    except SfiError:
        raise
    except (OSError, ValueError, csv.Error) as problem:
        raise SfiError(f"{path} can't be read as {path.suffix[1:]}: {problem}") from problem


def read_zipped(archive: Path, member: str) -> list[Row]:
    """Rows of a file in a zip archive. Raises SfiError where it isn't in there, or has no rows."""
    try:
        with zipfile.ZipFile(archive) as opened:
            text = opened.read(member).decode("utf-8")
        return _rows(_parsed(Path(member).suffix, text, None), f"{archive}, {member}")
    except SfiError:
        raise
    except (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile) as problem:
        raise SfiError(f"{archive} has no readable {member}: {problem}") from problem


def _rows(values: Sequence[Any] | Iterator[Any], where: str) -> list[Row]:
    found = []
    for at, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise SfiError(f"{where}, row {at} must be an object with columns, not {_shown(value)}")
        if None in value or (None in value.values() and where.endswith(".csv")):
            raise SfiError(
                f"{where}, row {at} has more or fewer values than the columns {', '.join(filter(None, value))}"
            )
        found.append(Row(value, f"{where}, row {at}"))
    if not found:
        raise SfiError(f"{where} has no rows")
    return found


def _parquet(path: Path) -> list[dict[str, Any]]:
    import polars

    try:
        return polars.read_parquet(path).to_dicts()
    except polars.exceptions.PolarsError as problem:
        raise ValueError(str(problem).strip().split("\n")[0]) from problem


def _parsed(suffix: str, text: str, columns: Sequence[str] | None) -> Iterator[Any]:
    if suffix == ".jsonl":
        # not splitlines(): a JSON string may hold U+2028 and its like as they are
        for at, line in enumerate((line for line in text.split("\n") if line.strip()), 1):
            try:
                yield json.loads(line)
            except ValueError as problem:
                raise ValueError(f"row {at}: {problem}") from problem
    elif suffix == ".json":
        rows = json.loads(text)
        yield from rows if isinstance(rows, list) else [rows]
    elif suffix == ".csv":
        yield from csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns)
    else:
        raise SfiError(f"no reader for {suffix or 'files without an ending'}; allowed: .jsonl, .json, .csv, .parquet")


def field(row: Row, name: str) -> Any:
    """A column's value. Raises SfiError that names the columns there are."""
    if name not in row:
        raise SfiError(f"{row.where} has no column {name!r}; it has: {', '.join(map(str, row))}")
    return row[name]


def text(row: Row, name: str, allowed: Sequence[str] | None = None) -> str:
    """A column's text, one of `allowed` where given. Raises SfiError for anything else."""
    value = field(row, name)
    if not isinstance(value, str):
        raise SfiError(f"{row.where}, column {name!r} must be text, not {_shown(value)}")
    if allowed is not None and value not in allowed:
        raise SfiError(f"{row.where}, column {name!r} must be one of {', '.join(allowed)}, not {_shown(value)}")
    return value


def texts(row: Row, name: str, n: int | None = None) -> tuple[str, ...]:
    """A column's list of texts (whole numbers are taken as such), `n` of them or one at least. Raises SfiError for anything else."""
    value = field(row, name)
    right = isinstance(value, list) and all(isinstance(each, str) or type(each) is int for each in value)
    if not right or (len(value) != n if n else not value):
        raise SfiError(
            f"{row.where}, column {name!r} must be a list of {n or 'one or more'} texts, not {_shown(value)}"
        )
    return tuple(map(str, value))


def number(row: Row, name: str, least: int = 0, most: int | None = None) -> int:
    """A column's whole number between the bounds. Raises SfiError for anything else."""
    value = field(row, name)
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"from {least}" + ("" if most is None else f" to {most}")
        raise SfiError(f"{row.where}, column {name!r} must be a whole number {bounds}, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """A value as JSON would have it, not too long for a sentence."""
    said = json.dumps(value, ensure_ascii=False, default=str)
    return said if len(said) <= 60 else said[:57] + "..."


def sample(rows: Sequence[Any], n: int, seed: int) -> list[Any]:
    """`n` of the rows drawn without replacement, in their order; all of them where n is 0 or more than there are."""
    if n <= 0 or n >= len(rows):
        return list(rows)
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), n))]
