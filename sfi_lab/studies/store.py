"""A study's folder: every prompt's results on disk as soon as they are there, so that a killed study goes on where it was."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfi_lab.errors import SfiError

DESCRIBED = "study.json"


class Store:
    """OUT/study.json (what is being studied), OUT/work/<prompt>/ (frames and arrays of one prompt), OUT/*.parquet and report.md.

    A prompt's folder counts as done when its `done` file is there, which is written last.
    """

    def __init__(self, root: str | Path, config: dict[str, Any]) -> None:
        """Opens or begins a study.

        Raises SfiError if the folder holds another one, or something that is no study, or can't be written to.
        """
        self.root = Path(root)
        config = json.loads(json.dumps(config))
        before = read_config(self.root)
        if before is not None:
            changed = sorted(key for key in {*before, *config} if before.get(key) != config.get(key))
            if changed:
                what = ", ".join(_changed(key, before.get(key), config.get(key)) for key in changed)
                raise SfiError(
                    f"{self.root} holds a study with another {what}; give a new folder, or the same arguments to go on"
                )
        elif self.root.is_dir() and any(self.root.iterdir()):
            raise SfiError(f"{self.root} is not empty and holds no study; give a new folder")
        self.work = self.root / "work"
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            _replace(self.root / DESCRIBED, json.dumps(config, indent=1, ensure_ascii=False).encode())
        except OSError as error:
            raise SfiError(f"{self.root} can't hold results: {error.strerror}; give another folder") from None
        self.config = config

    def done(self, name: str) -> bool:
        """True if this prompt's results are complete."""
        return (self._folder(name) / "done").is_file()

    def save(self, name: str, frames: dict[str, pl.DataFrame], arrays: dict[str, np.ndarray] | None = None) -> None:
        """Writes one prompt's results; they count once all are there."""
        folder = self._folder(name)
        folder.mkdir(exist_ok=True)
        for table, frame in frames.items():
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression="zstd")
            _replace(folder / f"{table}.parquet", buffer.getvalue())
        if arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **arrays)
            _replace(folder / "arrays.npz", buffer.getvalue())
        _replace(folder / "done", b"")

    def frame(self, table: str, names: list[str]) -> pl.DataFrame:
        """One table of several prompts, one below the other, with a column `prompt`."""
        found = []
        for name in names:
            path = self._folder(name) / f"{table}.parquet"
            if path.is_file():
                found.append(pl.read_parquet(path).select(pl.lit(name).alias("prompt"), pl.all()))
        if not found:
            raise SfiError(f"{self.root} has no table {table!r} of any of its prompts yet")
        return pl.concat(found, how="diagonal_relaxed")

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one prompt."""
        with np.load(self._folder(name) / "arrays.npz") as file:
            return dict(file)

    def publish(self, frames: dict[str, pl.DataFrame], report: str) -> list[Path]:
        """Writes the study's tables and report; the paths written."""
        written = []
        for table, frame in frames.items():
            path = self.root / f"{table}.parquet"
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression="zstd")
            _replace(path, buffer.getvalue())
            written.append(path)
        _replace(self.root / "report.md", report.encode())
        return [*written, self.root / "report.md"]

    def _folder(self, name: str) -> Path:
        return self.work / re.sub(r"[^\w.-]", "_", name)


def _changed(key: str, there: Any, now: Any) -> str:
    """What differs, with both values where they are short enough to read in a sentence."""
    values = f" ({there}, now {now})"
    return key + (values if not isinstance(there, (list, dict)) and len(values) < 80 else "")


def read_config(root: Path) -> dict[str, Any] | None:
    """What a folder's study is about; None where it holds none. Raises SfiError for a damaged description."""
    described = root / DESCRIBED
    if not described.is_file():
        return None
    try:
        found = json.loads(described.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SfiError(f"{described} is damaged: it is no JSON object; give a new folder, or put the file back")
    return found


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # several processes may share a study's folder
    partial.write_bytes(content)
    os.replace(partial, path)
