"""Slow-step timing: where each step's milliseconds went, how fast and slow steps differ, and a profiled step's streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import memory_bound, slow_share, step_times
from sfi_lab.errors import SfiError
from sfi_lab.trace.timeline import read_timeline

from .deep_twins import timing_figure
from .panel import Panel, module
from .session import Session

_GROUPS = {
    "model": ("model",),
    "attention": ("attention",),
    "evidence and prior": ("evidence", "prior", "fusion"),
    "soft-NMS and exclusivity": ("nms", "exclusivity"),
    "Top-K and packing": ("topk", "pack"),
    "sampling": ("sample",),
}
_TIMELINE = ("layer", "stream", "stage", "start_ms", "end_ms")


class SlowStepTiming(Panel):
    """Bars a step, split by stage, and the distribution of fast against slow steps. Times are the recording's, its own cost
    left out.

    timeline: streams of profiled steps - by default the trace folder's own, where it has one; else the path of a table with
        the columns layer, stream, stage, start_ms, end_ms (others tell several profiles apart), or such a frame.
    bandwidth: GB/s of the device's memory; above 0 it draws what reading the keys and values alone would take, as a line.
    """

    _esm = module("slow_step_timing.mjs")
    height = T.Int(250).tag(sync=True)  # CSS pixels
    times = T.Dict().tag(sync=True)
    profiles = T.List(T.Dict()).tag(sync=True)
    profile = T.Int(0).tag(sync=True)
    bandwidth = T.Float(0.0).tag(sync=True)
    bound = T.Dict().tag(sync=True)
    error = T.Unicode("").tag(sync=True)

    def __init__(
        self, source: Trace | Session, timeline: str | Path | pl.DataFrame | None = None, **traits: object
    ) -> None:
        session = source if isinstance(source, Session) else Session(source)
        times = _times(session)
        super().__init__(session, times=times, profiles=_profiles(session.trace, timeline), **traits)
        self._bound()

    def values(self) -> np.ndarray:
        """Milliseconds by stage and step, float32 [stages, steps], NaN for the prompt's step."""
        return np.frombuffer(self.times["values"], np.float32).reshape(len(self.times["groups"]), -1)

    @T.observe("bandwidth")
    def _bound(self, _change: Any = None) -> None:
        self.error = ""
        if not self.bandwidth:
            self.bound = {}
            return
        try:
            frame = memory_bound(self.session.trace, self.bandwidth * 1e9)
        except SfiError:
            self.bound = {}
            self.error = (
                f"bandwidth = {self.bandwidth:g} GB/s is not allowed; allowed: a number above 0, or 0 for no line"
            )
            return
        ms = np.full(self.state.steps, np.nan, np.float32)
        ms[frame["step"].to_numpy()] = frame["bound"].to_numpy()
        slow = frame.group_by("route").agg(pl.col("times_bound").median())
        self.bound = {"values": ms.tobytes(), "times_bound": dict(slow.iter_rows())}

    def to_figure(self):
        """The same bars, distribution and streams as a matplotlib figure."""
        return timing_figure(self)

    def shows(self) -> str:
        streams = f", {len(self.profiles)} profiled" if self.profiles else ""
        return f"{self.times['slow_steps']} slow and {self.times['fast_steps']} fast steps{streams}"


def _times(session: Session) -> dict[str, Any]:
    frame, shares = step_times(session.trace), slow_share(session.trace)
    steps = np.full((len(_GROUPS), session.state.steps), np.nan, np.float32)
    at = frame["step"].to_numpy()
    for row, parts in enumerate(_GROUPS.values()):
        steps[row, at] = frame.select(total=sum(frame[part] for part in parts))["total"].to_numpy()
    if not np.nansum(steps):
        raise SfiError(f"{session.trace.path} holds no times")
    return {
        "groups": list(_GROUPS),
        "values": steps.tobytes(),
        **{k: v for k, v in shares.items() if v is not None},
    }


def _profiles(trace: Trace, given: str | Path | pl.DataFrame | None) -> list[dict[str, Any]]:
    """title and rows [layer, stream, stage, start, end] (ms) of each profiled step."""
    frame = _timeline(trace, given)
    if frame is None or not frame.height:
        return []
    missing = [name for name in _TIMELINE if name not in frame.columns]
    if missing:
        raise SfiError(f"a timeline needs the columns {', '.join(_TIMELINE)}; missing: {', '.join(missing)}")
    apart = [n for n in ("config", "batch", "context", "kind", "device") if n in frame.columns]
    groups = frame.group_by(apart, maintain_order=True) if apart else [((), frame)]
    return [
        {
            "title": ", ".join(f"{n} {v:,}" if isinstance(v, int) else str(v) for n, v in zip(apart, key, strict=True))
            or "profiled step",
            "rows": [list(row) for row in part.select(_TIMELINE).iter_rows()],
        }
        for key, part in groups
    ]


def _timeline(trace: Trace, given: str | Path | pl.DataFrame | None) -> pl.DataFrame | None:
    if isinstance(given, pl.DataFrame):
        return given
    if given is None:
        try:
            return read_timeline(trace.path)
        except SfiError:
            return None
    path = Path(given)
    if path.is_dir():
        return read_timeline(path)
    if not path.is_file():
        raise SfiError(f"{path} does not exist; timeline takes a folder with a timeline, or a parquet file")
    return pl.read_parquet(path)
