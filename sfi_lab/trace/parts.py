"""Parts on disk: each is written whole under another name and renamed, so a kill never leaves half a part."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
from safetensors.torch import save_file
from torch import Tensor

from sfi_lab.trace.schema import TABLES


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces the file in one step."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
    os.replace(partial, path)


def write_table(root: Path, table: str, number: int, frame: pl.DataFrame) -> None:
    """One more part of a table; the frame must have the schema's columns (`TABLES`)."""
    path = root / table / f"part-{number:05d}.parquet"
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    frame.select(list(TABLES[table])).write_parquet(partial, compression="zstd")
    os.replace(partial, path)


def write_tensors(root: Path, number: int, tensors: dict[str, Tensor]) -> None:
    """One more part of queries, keys and values."""
    path = root / "qk" / f"part-{number:05d}.safetensors"
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, partial)
    partial.chmod(0o644)  # safetensors writes for the owner alone; the other parts are readable like any new file
    os.replace(partial, path)


def parts(root: Path, table: str, suffix: str = "parquet") -> list[Path]:
    """The finished parts of a table, in order."""
    return sorted((root / table).glob(f"part-*.{suffix}"))
