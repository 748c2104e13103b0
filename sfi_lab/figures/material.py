"""What figures are made from: traces and result tables, looked up by content, each use noted for the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sfi_lab.analysis import LayerReplay
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace


class Missing(SfiError):
    """A figure's data isn't there. what: a sentence; command: what makes it."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what}; this makes it: {command}")
        self.what, self.command = what, command


@dataclass(frozen=True, slots=True)
class Found:
    """A result table and where it was."""

    frame: pl.DataFrame
    path: Path

    @property
    def study(self) -> dict[str, Any]:
        """What the study beside it was run on (model, prompts, settings …); empty if there is no study.json."""
        described = self.path.parent / "study.json"
        return json.loads(described.read_text(encoding="utf-8")) if described.is_file() else {}

    def said(self) -> str:
        """Model and settings of the study, for captions."""
        if not self.study:
            return f"table {self.path.stem}"
        return f"{self.study['model']}, {Settings.from_dict(self.study['settings']).to_code()}"


RECORD = "sfi-lab generate --prompt-file data/prompts/story_ferry.md --chat --k 96 --recent 64 --record audit+qk --trace TRACE"


@dataclass
class Material:
    """Traces and Parquet tables. Figures ask `traces_with`, `table` and `rows`; what they got is listed in `used`."""

    traces: tuple[Trace, ...] = ()
    files: tuple[Path, ...] = ()
    used: list[Path] = field(default_factory=list)
    _kept: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def gather(cls, traces: Iterable[str | Path | Trace] = (), results: Iterable[str | Path] = ()) -> Material:
        """Opens traces; in a results folder, every Parquet file outside of traces, and traces if none was named.

        Raises SfiError for a folder that isn't there or nothing named at all.
        """
        opened = [trace if isinstance(trace, Trace) else Trace.open(trace) for trace in traces]
        files: list[Path] = []
        inside: list[Path] = []
        for folder in map(Path, results):
            if not folder.is_dir():
                raise SfiError(f"there is no results folder at {folder}")
            inside += sorted(meta.parent for meta in folder.rglob("meta.json"))
            files += [file for file in sorted(folder.rglob("*.parquet")) if _is_result(file, folder, inside)]
        if not opened:
            opened = [Trace.open(path) for path in inside]
        # a profiled run keeps its timeline in the trace's folder
        files += [part for trace in opened for part in sorted(trace.path.glob("timeline/*.parquet"))]
        if not opened and not files:
            raise SfiError(
                "figures are made from recordings and results: name a trace folder, or --results with a folder of tables"
            )
        return cls(tuple(opened), tuple(files))

    def view(self) -> Material:
        """The same material with an empty list of uses; computed things are shared."""
        return Material(self.traces, self.files, [], self._kept)

    # asking ----------------------------------------------------------------------------------------------------------

    def traces_with(self, fits: Callable[[Trace], bool], what: str, command: str = RECORD) -> tuple[Trace, ...]:
        """Traces that fit; Missing, with what was looked for, if none does."""
        found = tuple(trace for trace in self.traces if fits(trace))
        if not found:
            raise Missing(what, command)
        self.use(trace.path for trace in found)
        return found

    def with_queries(self) -> tuple[Trace, ...]:
        """Traces recorded with "+qk" that took the sparse path at least once."""
        return self.traces_with(
            lambda t: t.qk_layers and _was_sparse(t), "no trace with queries and keys of a sparse run is there"
        )

    def tables(self, columns: Sequence[str], what: str, command: str, keep: pl.Expr | None = None) -> list[Found]:
        """Every result table that has these columns (and rows that pass `keep`), by path; Missing if none has.

        The caller says with `use` which ones it took.
        """
        found = [Found(frame, path) for path, frame in self._matching(columns, keep)]
        if not found:
            raise Missing(what, command)
        return found

    def table(self, columns: Sequence[str], what: str, command: str, keep: pl.Expr | None = None) -> Found:
        """The first such table."""
        (first, *_) = self.tables(columns, what, command, keep)
        self.use([first.path])
        return first

    def rows(self, columns: Sequence[str], what: str, command: str, keep: pl.Expr | None = None) -> pl.DataFrame:
        """The rows of all such tables, one below the other."""
        found = self.tables(columns, what, command, keep)
        self.use([table.path for table in found])
        return pl.concat([table.frame for table in found], how="diagonal_relaxed")

    def _matching(self, columns: Sequence[str], keep: pl.Expr | None) -> Iterator[tuple[Path, pl.DataFrame]]:
        for file in self.files:
            frame = self.keep(("table", file), lambda file=file: _read(file))
            if set(columns) <= set(frame.columns):
                chosen = frame if keep is None else frame.filter(keep)
                if chosen.height:
                    yield file, chosen

    def replay(self, trace: Trace, layer: int, output_error: bool = False) -> LayerReplay:
        """A layer's replay, made once: with its attention-output error it answers everything, so that one serves both."""
        ready = self._kept.get(("replay", trace.path, layer, True))
        return ready or self.keep(
            ("replay", trace.path, layer, output_error), lambda: LayerReplay(trace, layer, output_error)
        )

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """A result that several figures share, computed on first use."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    # for the manifest ------------------------------------------------------------------------------------------------

    def use(self, paths: Iterable[Path]) -> None:
        """Notes what a figure is made from."""
        self.used += [path for path in paths if path not in self.used]


def _is_result(file: Path, folder: Path, traces: list[Path]) -> bool:
    """Neither a trace's part nor a study's work in progress (`work/`, one folder a prompt)."""
    return "work" not in file.relative_to(folder).parts and not any(trace in file.parents for trace in traces)


def _was_sparse(trace: Trace) -> bool:
    return bool((trace.steps["route"] == "fast").any())


def _read(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except Exception as error:  # polars raises several kinds for a damaged file, some of them its own
        raise SfiError(f"{file} is damaged or no Parquet file: {str(error).splitlines()[0]}") from None


def content_hash(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files by name and content; names within the folder only, so it may move."""
    sha = hashlib.sha256()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        sha.update(str(file.relative_to(path)).encode() + b"\0")
        sha.update(hashlib.sha256(file.read_bytes()).digest())
    return sha.hexdigest()
