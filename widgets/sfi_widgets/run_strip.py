"""Run strip: the whole run at a glance - slow steps with their reason, sentences, one metric as a line, the brush."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import measure
from sfi_lab.errors import SfiError

from . import columns
from .panel import Panel, module
from .session import Session
from .twins import run_figure

# column of the steps table: (name shown, kind)
_METRICS = {
    "missed_mass": ("missed mass", "exact"),
    "kl": ("KL to dense (nats)", "exact"),
    "keys_read": ("keys read", "exact"),
    "keys_scored": ("keys looked at only to choose", "exact"),
    "bytes_kept": ("bytes of keys and values kept", "exact"),
    "ms_total": ("ms a step", "exact"),
    "drift": ("query drift", "exact"),
    "logprob": ("log-probability of the token", "exact"),
}
_OVERLAP = ("overlap with the step before, all layers", "exact")
_HEAVIEST = 24  # positions that the overlap compares


class RunStrip(Panel):
    """One column a decode step. Drag to choose the range that the other panels show; arrow keys move the shared cursor.

    metric: a column of the steps table that the recording has; "overlap": the share of the 24 heaviest positions that the step
    before had too, mean over all recorded layers and heads (measured when it is first chosen).
    """

    _esm = module("run_strip.mjs")
    height = T.Int(132).tag(sync=True)  # CSS pixels
    metric = T.Unicode("").tag(sync=True)
    metrics = T.List(T.Dict()).tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        found = [m for name in _METRICS if (m := _metric(session.trace, name)) is not None]
        nothing = np.full(session.state.steps, np.nan, np.float32).tobytes()
        found.append(
            dict(zip(("name", "title", "kind"), ("overlap", *_OVERLAP), strict=True), values=nothing, pending=True)
        )
        metric = str(traits.pop("metric", ""))
        super().__init__(session, metrics=found, **traits)
        self.metric = metric or found[0]["name"]

    @T.validate("metric")
    def _known_metric(self, proposal: dict[str, Any]) -> str:
        known = [m["name"] for m in self.metrics] + ["kept"]  # the last one is drawn from the hub's arrays
        if self.metrics and proposal["value"] not in known:
            raise SfiError(f"metric {proposal['value']!r} does not exist; allowed: {', '.join(known)}")
        return proposal["value"]

    @T.observe("metric")
    def _on_metric(self, change: dict[str, Any]) -> None:
        if change["new"] == "overlap":
            self.measure_overlap()

    def measure_overlap(self) -> None:
        """Measures the line "overlap", if that hasn't been done."""
        at = next((i for i, m in enumerate(self.metrics) if m.get("pending")), None)
        if at is None:
            return
        trace, line = self.session.trace, np.full(self.state.steps, np.nan, np.float32)
        try:
            pairs = measure(trace, lags=[1], metrics=("overlap",), n=_HEAVIEST).values["overlap"][
                0
            ]  # (t, t + 1), [n, rows]
        except SfiError:  # too few steps: the line stays empty
            return
        have = np.isfinite(pairs)
        level = np.where(have, pairs, 0).sum(1) / np.maximum(have.sum(1), 1)
        line[np.asarray(trace.decode_steps)[1:]] = np.where(have.any(1), level, np.nan)[:-1]
        done = {**self.metrics[at], "values": line.tobytes(), "pending": False}
        self.metrics = [*self.metrics[:at], done, *self.metrics[at + 1 :]]

    def values(self) -> np.ndarray:
        """The chosen metric by step, float32, NaN where a step has none."""
        if self.metric == "kept":
            return self.session.now.kept if self.session.now else np.full(self.state.steps, np.nan, np.float32)
        chosen = next(m for m in self.metrics if m["name"] == self.metric)
        return np.frombuffer(chosen["values"], np.float32)

    def to_figure(self):
        """The same line as a matplotlib figure."""
        return run_figure(self.session, self.values(), self.metric.replace("_", " "))

    def shows(self) -> str:
        slow = int((self.session.trace.steps["route"] == "slow").sum())
        return (
            f"{self.state.steps} steps, {slow} slow, {self.metric} sha {columns.digest(np.nan_to_num(self.values()))}"
        )


def _metric(trace: Trace, name: str) -> dict[str, Any] | None:
    column = trace.steps[name]
    if column.null_count() == len(column) or (name == "keys_scored" and not column.max()):
        return None
    title, kind = _METRICS[name]
    values = column.cast(float).fill_null(float("nan")).to_numpy().astype(np.float32)
    values = np.where((trace.steps["route"] == "prefill").to_numpy(), np.float32("nan"), values).astype(np.float32)
    return {"name": name, "title": title, "kind": kind, "values": values.tobytes()}
