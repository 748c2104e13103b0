"""Head navigator: every layer and KV head as a cell, coloured by a metric; click one to look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import WhatIf, measure, selection_anatomy
from sfi_lab.errors import SfiError

from . import columns
from .all_layers import AllLayers
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
_STABILITY = ("stability", "overlap of the 24 heaviest positions of neighbouring steps, mean over steps")
# under the current settings: (frame of WhatIf, column, name shown, what it is)
_NOW = {
    "now_missed": ("steps", "missed", "missed mass, current settings", "attention mass on positions not read, mean over steps"),
    "now_lam": ("selection", "lam", "λ, current settings", "share of the prior, mean over refreshes"),
    "now_overlap": ("selection", "overlap", "overlap, current settings", "Jaccard with the recorded selection in force, mean over refreshes"),
    "now_keys": ("steps", "keys_read", "keys read, current settings", "positions read a step, mean"),
}  # fmt: skip


class HeadNavigator(Panel):
    """Layer × KV head. Click = look at this head, again = the mean of its layer; shift-click = add it to (or take it from)
    the mean of several heads of its layer. Layers with a window of their own, or not recorded, are grey.

    After a change of settings all layers with queries and keys are run again in the background: `summary` says what came
    out, `busy` and `progress` how far it is, and the metrics named "…, current settings" show it. `wait()` waits for it.
    """

    _esm = module("head_navigator.mjs")
    metric = T.Unicode("").tag(sync=True)
    metrics = T.List(T.Dict()).tag(sync=True)
    layer_kinds = T.List(T.Unicode()).tag(sync=True)
    summary = T.Unicode("").tag(sync=True)
    summary_kind = T.Unicode("").tag(sync=True)
    busy = T.Bool(False).tag(sync=True)
    progress = T.Float(0.0).tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        trace = session.trace
        kinds = trace.meta["model"]["layer_kinds"]
        super().__init__(session, metrics=_recorded_metrics(trace, len(kinds)), layer_kinds=kinds)
        self.found: WhatIf | None = None
        self.all_layers = AllLayers(trace, self._stale, self._show_progress, self._show_found, self._say)
        self.metric = str(traits.pop("metric", "") or (self.metrics[0]["name"] if self.metrics else ""))
        self.set_trait("layout", traits.pop("layout", self.layout))
        if trace.qk_layers:
            self.state.observe(lambda change: self.all_layers.ask(change["new"]), "settings")

    @T.observe("metric")
    def _on_metric(self, change: dict[str, Any]) -> None:
        if change["new"] == "stability":
            self._measure_stability()

    def values(self) -> np.ndarray:
        """The chosen metric, float32 [layers, KV heads], NaN where there is none."""
        chosen = next(m for m in self.metrics if m["name"] == self.metric)
        return np.frombuffer(chosen["values"], np.float32).reshape(-1, self.session.trace.kv_heads)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the summaries of all layers; True if they are there."""
        return self.all_layers.wait(timeout)

    def to_figure(self):
        """The same cells as a matplotlib figure."""
        from .twins import heads_figure  # matplotlib takes a while to import

        return heads_figure(self.values(), self.metric.replace("_", " "))

    def shows(self) -> str:
        if not self.metrics:
            return "nothing was selected"
        values = self.values()
        return f"{self.metric} {np.nanmin(values):.3f} to {np.nanmax(values):.3f}, sha {columns.digest(np.nan_to_num(values))}"

    # stability is measured when it is asked for: it takes a moment ----------------------------------------------------

    def _measure_stability(self) -> None:
        trace, layers = self.session.trace, len(self.layer_kinds)
        at = next((i for i, m in enumerate(self.metrics) if m["name"] == "stability"), None)
        if at is None or not self.metrics[at].get("pending"):
            return
        try:
            found = measure(trace, lags=[1], metrics=("overlap",), n=24)
        except SfiError as error:
            self._say(f"stability: {error}")
            return
        values = found.values["overlap"][0]  # [n, rows]
        level = np.where(
            np.isfinite(values).any(0), np.nanmean(np.where(np.isfinite(values), values, np.nan), 0), np.nan
        )
        table = pl.DataFrame({"layer": found.layers, "kv_head": found.kv_heads, "stability": level})
        grid = _grid(table, *_STABILITY[:1], *_STABILITY, layers, trace.kv_heads, "exact")
        self.metrics = [*self.metrics[:at], grid, *self.metrics[at + 1 :]]

    # all layers, in the background ------------------------------------------------------------------------------------

    def _stale(self) -> None:
        with self.hold_sync():
            self.found, self.summary, self.summary_kind, self.busy, self.progress = None, "", "", True, 0.0
            if self.metric in _NOW:  # what it showed belongs to other settings
                layers = len(self.layer_kinds)
                self.metrics = [m for m in self.metrics if m["name"] not in _NOW] + [
                    _grid(pl.DataFrame(schema=_EMPTY | {m["name"]: pl.Float32}), m["name"], m["title"], m["meaning"], layers, self.session.trace.kv_heads, "")
                    for m in self.metrics if m["name"] in _NOW
                ]  # fmt: skip
            else:
                self.metrics = [m for m in self.metrics if m["name"] not in _NOW]

    def _show_progress(self, done: int, of: int) -> None:
        self.progress = done / of

    def _show_found(self, found: WhatIf) -> None:
        layers, heads, s = len(self.layer_kinds), self.session.trace.kv_heads, found.summary
        grids = []
        for name, (frame, column, title, meaning) in _NOW.items():
            table = getattr(found, frame).with_columns(pl.col(column).cast(pl.Float64).fill_nan(None))
            means = table.group_by("layer", "kv_head").agg(pl.col(column).mean().alias(name))
            grids.append(_grid(means, name, title, meaning, layers, heads, found.kind))
        words = [f"current settings, {len(found.layers)} layers: mass kept {100 * s['kept']:.2f} %"]
        words += [f"{s['keys_read']:,.0f} keys a step", f"{s['refreshes']} refreshes"]
        if s["overlap"] is not None:
            words.append(f"overlap with the recorded selections {s['overlap']:.2f}")
        with self.hold_sync():
            self.found, self.busy, self.progress = found, False, 1.0
            self.summary, self.summary_kind = ", ".join(words), found.kind
            self.metrics = [m for m in self.metrics if m["name"] not in _NOW] + grids

    def _say(self, sentence: str) -> None:
        with self.hold_sync():
            self.summary, self.summary_kind, self.busy = sentence, "", False


_EMPTY = {"layer": pl.Int16, "kv_head": pl.Int16}


def _recorded_metrics(trace: Trace, layers: int) -> list[dict[str, Any]]:
    found, heads = [], trace.kv_heads
    means = trace.support.group_by("layer", "kv_head").agg(pl.col("missed", "keys_read").mean()).collect()
    if means["missed"].null_count() < means.height:
        meaning = "dense attention on positions that the steps did not read, mean over steps (audit)"
        found.append(_grid(means, "missed", "missed mass", meaning, layers, heads, "exact"))
    anatomy = selection_anatomy(trace)
    if anatomy.height:
        selected = anatomy.group_by("layer", "kv_head").mean()
        found += [
            _grid(selected, name, title, meaning, layers, heads, "exact") for name, (title, meaning) in _METRICS.items()
        ]
    found.append(_grid(means, "keys_read", "keys read", "positions read a step, mean", layers, heads, "exact"))
    pending = pl.DataFrame(schema=_EMPTY | {"stability": pl.Float32})
    return [*found, _grid(pending, *_STABILITY[:1], *_STABILITY, layers, heads, "exact") | {"pending": True}]


def _grid(
    table: pl.DataFrame, name: str, title: str, meaning: str, layers: int, heads: int, kind: str
) -> dict[str, Any]:
    values = np.full((layers, heads), np.nan, np.float32)
    for layer, head, value in table.select("layer", "kv_head", name).iter_rows():
        values[layer, head] = np.nan if value is None else value
    return {"name": name, "title": title, "meaning": meaning, "kind": kind, "values": values.tobytes()}
