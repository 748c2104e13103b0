"""A profiled step's table in a trace's folder: when each layer's attention, selector, Top-K and packing ran, on which stream.

| column   | type    | what                                                                     |
|----------|---------|--------------------------------------------------------------------------|
| layer    | int16   |                                                                          |
| stream   | string  | "main", or "selector" for the second stream                              |
| stage    | string  | "attention", "selector", "topk", "pack"; "step" (layer -1) for the whole |
| start_ms | float32 | since the step began                                                     |
| end_ms   | float32 |                                                                          |

`sfi_lab.runtime.profile` makes and writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import polars as pl

from sfi_lab.errors import SfiError

TIMELINE: Mapping[str, type[pl.DataType]] = MappingProxyType(
    {"layer": pl.Int16, "stream": pl.String, "stage": pl.String, "start_ms": pl.Float32, "end_ms": pl.Float32}
)
TIMELINE_FILE = "timeline/part-00000.parquet"  # in the trace's folder


def read_timeline(folder: str | Path) -> pl.DataFrame:
    """The table of a profiled run, columns as above. Raises SfiError where there is none."""
    path = Path(folder) / TIMELINE_FILE
    if not path.is_file():
        raise SfiError(f"{folder} has no timeline; `sfi_lab.runtime.profile.timeline` makes one")
    return pl.read_parquet(path)
