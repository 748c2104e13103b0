"""Run strip: the whole run at a glance - slow steps with their reason, sentences, one metric as a line, the brush."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets as T

from sfi_lab import Trace

from . import columns
from .panel import Panel, module
from .session import Session

# column of the steps table: (name shown, kind)
_METRICS = {
    "missed_mass": ("missed mass", "exact"),
    "kl": ("KL to dense (nats)", "exact"),
    "keys_read": ("keys read", "exact"),
    "ms_total": ("ms a step", "exact"),
    "drift": ("query drift", "exact"),
    "logprob": ("log-probability of the token", "exact"),
}


class RunStrip(Panel):
    """One column a decode step. Drag to choose the range that the other panels show; arrow keys move the shared cursor."""

    _esm = module("run_strip.mjs")
    height = T.Int(132).tag(sync=True)  # CSS pixels
    metric = T.Unicode("").tag(sync=True)
    metrics = T.List(T.Dict()).tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        found = [m for name in _METRICS if (m := _metric(session.trace, name)) is not None]
        super().__init__(session, metrics=found, **traits)
        self.metric = self.metric or (found[0]["name"] if found else "")

    def values(self) -> np.ndarray:
        """The chosen metric by step, float32, NaN where a step has none."""
        chosen = next(m for m in self.metrics if m["name"] == self.metric)
        return np.frombuffer(chosen["values"], np.float32)

    def to_figure(self):
        """The same line as a matplotlib figure."""
        from .twins import run_figure  # matplotlib takes a while to import

        return run_figure(self.session, self.values(), self.metric.replace("_", " "))

    def shows(self) -> str:
        slow = int((self.session.trace.steps["route"] == "slow").sum())
        return (
            f"{self.state.steps} steps, {slow} slow, {self.metric} sha {columns.digest(np.nan_to_num(self.values()))}"
        )


def _metric(trace: Trace, name: str) -> dict[str, Any] | None:
    column = trace.steps[name]
    if column.null_count() == len(column):
        return None
    title, kind = _METRICS[name]
    values = column.cast(float).fill_null(float("nan")).to_numpy().astype(np.float32)
    values = np.where((trace.steps["route"] == "prefill").to_numpy(), np.float32("nan"), values).astype(np.float32)
    return {"name": name, "title": title, "kind": kind, "values": values.tobytes()}
