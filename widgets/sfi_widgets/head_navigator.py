"""Head navigator: every layer and KV head as a cell, coloured by a metric; click one to look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import selection_anatomy

from . import columns
from .panel import Panel, module
from .session import Session

# column of selection_anatomy: (name shown, what it is)
_METRICS = {
    "churn": ("churn", "share of a selection that the refresh before had not selected, mean over refreshes"),
    "lam": ("λ", "share of the prior, mean over refreshes"),
    "evidence": ("evidence kept", "share of the evidence on the selected positions, mean over refreshes"),
    "coverage": ("coverage", "share of the document's equal stretches that hold a selected position"),
    "duplication": ("duplication", "how much the layer's heads select the same positions: 0 nothing"),
    "median_age": ("age", "positions between the query and the median selected position"),
}


class HeadNavigator(Panel):
    """Layer × KV head. Click = look at this head, again = the mean of its layer. Layers with a window of their own are grey."""

    _esm = module("head_navigator.mjs")
    metric = T.Unicode("").tag(sync=True)
    metrics = T.List(T.Dict()).tag(sync=True)
    layer_kinds = T.List(T.Unicode()).tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        trace = session.trace
        kinds = trace.meta["model"]["layer_kinds"]
        super().__init__(session, metrics=_metrics(trace, len(kinds)), layer_kinds=kinds, **traits)
        self.metric = self.metric or (self.metrics[0]["name"] if self.metrics else "")

    def values(self) -> np.ndarray:
        """The chosen metric, float32 [layers, KV heads], NaN where nothing was recorded."""
        chosen = next(m for m in self.metrics if m["name"] == self.metric)
        return np.frombuffer(chosen["values"], np.float32).reshape(-1, self.session.trace.kv_heads)

    def to_figure(self):
        """The same cells as a matplotlib figure."""
        from .twins import heads_figure  # matplotlib takes a while to import

        return heads_figure(self.values(), self.metric.replace("_", " "))

    def shows(self) -> str:
        if not self.metrics:
            return "nothing was selected"
        values = self.values()
        return f"{self.metric} {np.nanmin(values):.3f} to {np.nanmax(values):.3f}, sha {columns.digest(np.nan_to_num(values))}"


def _metrics(trace: Trace, layers: int) -> list[dict[str, Any]]:
    found = []
    table = trace.support.group_by("layer", "kv_head").agg(pl.col("missed").mean()).collect()
    if table["missed"].null_count() < table.height:
        meaning = "dense attention on positions that the steps did not read, mean over steps (audit)"
        found.append(_grid(table, "missed", "missed mass", meaning, layers, trace.kv_heads))
    anatomy = selection_anatomy(trace)
    if anatomy.height:
        means = anatomy.group_by("layer", "kv_head").mean()
        found += [
            _grid(means, name, title, meaning, layers, trace.kv_heads) for name, (title, meaning) in _METRICS.items()
        ]
    return found


def _grid(table: pl.DataFrame, name: str, title: str, meaning: str, layers: int, heads: int) -> dict[str, Any]:
    values = np.full((layers, heads), np.nan, np.float32)
    for layer, head, value in table.select("layer", "kv_head", name).iter_rows():
        values[layer, head] = np.nan if value is None else value
    return {"name": name, "title": title, "meaning": meaning, "kind": "exact", "values": values.tobytes()}
