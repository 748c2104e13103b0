"""Head navigator: every layer and KV head as a cell, coloured by a metric; click one to look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import traitlets as T

from sfi_lab import Settings, Trace
from sfi_lab.analysis import WhatIf, measure, selection_anatomy
from sfi_lab.errors import SfiError

from . import columns
from .all_layers import AllLayers
from .panel import Panel, module
from .session import Session
from .twins import heads_figure

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
# under the current settings: (frame of WhatIf, column, name shown, what it is); a recording has the frames "steps" and
# "selection" too, so layers that can't be re-selected show what the run did - but for the overlap, which would say nothing
_NOW = {
    "now_missed": ("steps", "missed", "missed mass, current settings", "attention mass on positions not read, mean over steps"),
    "now_lam": ("selection", "lam", "λ, current settings", "share of the prior, mean over refreshes"),
    "now_overlap": ("selection", "overlap", "overlap, current settings", "Jaccard with the recorded selection in force, mean over refreshes"),
    "now_keys": ("steps", "keys_read", "keys read, current settings", "positions read a step, mean"),
}  # fmt: skip
RECORDED = "recorded, not re-selected"


class HeadNavigator(Panel):
    """Layer × KV head. Click = look at this head, again = the mean of its layer; shift-click = add it to (or take it from)
    the mean of several heads of its layer. Layers with a window of their own, or not recorded, are grey.

    After a change of settings all layers with queries and keys are run again in the background: `summary` says what came
    out, `busy` and `progress` how far it is, and the metrics named "…, current settings" show it. `wait()` waits for it.
    Layers without queries and keys show there what the run did, marked as recorded, not re-selected (`recorded` of a metric).
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
        self.all_layers = AllLayers(trace, self._stale_summary, self._show_progress, self._show_found, self._say)
        self.metric = str(traits.pop("metric", "") or (self.metrics[0]["name"] if self.metrics else ""))
        self.set_trait("layout", traits.pop("layout", self.layout))
        self.state.observe(lambda change: self._ask(change["new"]), "settings")
        if self.state.settings != trace.settings:
            self._ask(self.state.settings)

    def _ask(self, settings: Settings) -> None:
        if self.session.trace.qk_layers:
            self.all_layers.ask(settings)
        else:
            changed = settings != self.session.trace.settings
            self._say(self._as_recorded("all") if changed else "")

    @T.validate("metric")
    def _known_metric(self, proposal: dict[str, Any]) -> str:
        known = [m["name"] for m in self.metrics] + list(_NOW)
        if self.metrics and proposal["value"] not in known:
            raise SfiError(f"metric {proposal['value']!r} does not exist; allowed: {', '.join(dict.fromkeys(known))}")
        return proposal["value"]

    @T.observe("metric")
    def _on_metric(self, change: dict[str, Any]) -> None:
        if change["new"] == "stability":
            self.measure_stability()
        if change["new"] in _NOW and all(m["name"] != change["new"] for m in self.metrics):
            self.metrics = [*self.metrics, self._now_grid(change["new"])]  # empty until the layers have been run

    @property
    def chosen(self) -> dict[str, Any]:
        """The chosen metric: name, title, meaning, kind, values, and `recorded` for one of the current settings."""
        return next(m for m in self.metrics if m["name"] == self.metric)

    def values(self) -> np.ndarray:
        """The chosen metric, float32 [layers, KV heads], NaN where there is none."""
        return np.frombuffer(self.chosen["values"], np.float32).reshape(-1, self.session.trace.kv_heads)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the summaries of all layers; True if they are there."""
        return self.all_layers.wait(timeout)

    def to_figure(self):
        """The same cells as a matplotlib figure."""
        if not self.metrics:
            raise SfiError("nothing to draw: nothing was recorded of any head")
        return heads_figure(self.values(), self.chosen["title"], self.layer_kinds, self.chosen.get("recorded", ()))

    def shows(self) -> str:
        if not self.metrics:
            return "nothing was selected"
        values = self.values()
        return f"{self.metric} {np.nanmin(values):.3f} to {np.nanmax(values):.3f}, sha {columns.digest(np.nan_to_num(values))}"

    # stability is measured when it is asked for: it takes a moment ----------------------------------------------------

    def measure_stability(self) -> None:
        """Measures the metric "stability", if that hasn't been done."""
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

    def _stale_summary(self) -> None:
        with self.hold_sync():
            self.found, self.summary, self.summary_kind, self.busy, self.progress = None, "", "", True, 0.0
            shown = (
                [self._now_grid(self.metric)] if self.metric in _NOW else []
            )  # what it showed belongs to other settings
            self.metrics = [m for m in self.metrics if m["name"] not in _NOW] + shown

    def _show_progress(self, done: int, of: int) -> None:
        self.progress = done / of

    def _show_found(self, found: WhatIf) -> None:
        s = found.summary
        words = [f"current settings, {len(found.layers)} layers: mass kept {100 * s['kept']:.2f} %"]
        words += [f"{s['keys_read']:,.0f} keys a step", f"{s['refreshes']} refreshes"]
        if s["overlap"] is not None:
            words.append(f"overlap with the recorded selections {s['overlap']:.2f}")
        others = self._as_recorded("the other")
        with self.hold_sync():
            self.found, self.busy, self.progress = found, False, 1.0
            self.summary, self.summary_kind = ", ".join(words) + (f"; {others}" if others else ""), found.kind
            self.metrics = [m for m in self.metrics if m["name"] not in _NOW] + [self._now_grid(n, found) for n in _NOW]

    def _now_grid(self, name: str, found: WhatIf | None = None) -> dict[str, Any]:
        """A metric under the current settings; layers that can't be re-selected as they were recorded."""
        frame, column, title, meaning = _NOW[name]
        trace, tables = self.session.trace, []
        if found is not None:
            tables.append(_means(getattr(found, frame), column, name))
        tables.append(self._recorded_means(frame, column, name))
        table = pl.concat([t for t in tables if t.height] or [pl.DataFrame(schema=_EMPTY | {name: pl.Float64})])
        grid = _grid(table, name, title, meaning, len(self.layer_kinds), trace.kv_heads, found.kind if found else "")
        return grid | {"recorded": sorted(set(tables[-1]["layer"].to_list()))}

    def _recorded_means(self, frame: str, column: str, name: str) -> pl.DataFrame:
        """layer, kv_head, mean of what the run did; only layers without queries and keys."""
        trace = self.session.trace
        if column == "overlap":
            return pl.DataFrame(schema=_EMPTY | {name: pl.Float64})
        table = (trace.support if frame == "steps" else trace.selection).filter(~pl.col("layer").is_in(trace.qk_layers))
        return _means(table.select("layer", "kv_head", column).collect(), column, name).drop_nulls(name)

    def _as_recorded(self, who: str) -> str:
        """A sentence on the layers that can't be re-selected, "" where there are none."""
        trace = self.session.trace
        others = [layer for layer in trace.layers if layer not in trace.qk_layers]
        if not others:
            return ""
        missed, keys = (self._recorded_means("steps", c, c)[c].mean() for c in ("missed", "keys_read"))
        words = [f"mass kept {100 * (1 - missed):.2f} %"] if missed is not None else []
        layers = f"{len(others)} layers" if len(others) > 1 else "layer"
        return f"{who} {layers} {RECORDED}: {', '.join([*words, f'{keys:,.0f} keys a step'])}"

    def _say(self, sentence: str) -> None:
        with self.hold_sync():
            self.summary, self.summary_kind, self.busy = sentence, "", False


_EMPTY = {"layer": pl.Int16, "kv_head": pl.Int16}


def _means(table: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    value = pl.col(column).cast(pl.Float64).fill_nan(None).mean().alias(name)
    keys = [pl.col("layer").cast(pl.Int16), pl.col("kv_head").cast(pl.Int16)]
    return table.group_by("layer", "kv_head").agg(value).select(*keys, name)


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
