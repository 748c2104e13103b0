"""A step's timeline: when each layer's attention, selector, Top-K and packing ran, and on which stream.

Its columns and its place in a trace's folder: `sfi_lab.trace.timeline`, which also reads it. Profiled steps are not timed steps: the
events between kernels cost something themselves.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sfi_lab.errors import SfiError
from sfi_lab.runtime.graphs import Graphs
from sfi_lab.trace.timeline import TIMELINE, TIMELINE_FILE

if TYPE_CHECKING:
    from sfi_lab.runtime.engine import Engine

_STREAMS = {"attention": "main", "step": "main"}


class _Marks:
    """What was begun and ended, in order, and when: device events on a GPU, the host's clock elsewhere."""

    def __init__(self, cuda: bool) -> None:
        self._cuda = cuda
        self.marks: list[tuple[int, str, str, Any]] = []

    def __call__(self, layer: int, stage: str, edge: str) -> None:
        if self._cuda:  # external: the event stays readable although it is recorded inside a captured graph
            now = torch.cuda.Event(enable_timing=True, external=True)
            now.record()
        else:
            now = time.perf_counter()
        self.marks.append((layer, stage, edge, now))

    def rows(self, overlapped: bool) -> list[dict[str, Any]]:
        first = self.marks[0][3]
        at = (lambda e: first.elapsed_time(e)) if self._cuda else (lambda t: (t - first) * 1e3)
        begun: dict[tuple[int, str], float] = {}
        rows = []
        for layer, stage, edge, mark in self.marks:
            if edge == "begin":
                begun[layer, stage] = at(mark)
            else:
                stream = _STREAMS.get(stage, "selector" if overlapped else "main")
                rows.append(
                    {
                        "layer": layer,
                        "stream": stream,
                        "stage": stage,
                        "start_ms": round(begun[layer, stage], 5),
                        "end_ms": round(at(mark), 5),
                    }
                )
        return rows


def timeline(engine: Engine, kind: str = "slow", warm_ups: int = 3) -> list[dict[str, Any]]:
    """The rows of one step of this kind, made from the engine's present state, which moves on by `warm_ups` + 1 steps.

    Raises SfiError for a kind that doesn't exist.
    """
    if kind not in ("fast", "slow", "dense"):
        raise SfiError(f"a step is fast, slow or dense; got {kind!r}")
    cuda = engine.device.type == "cuda"
    attention = engine.attention
    saved = engine.state.table.clone(), engine.state.tokens.clone(), engine.state.flags.clone()
    marks = _Marks(cuda)

    def body() -> torch.Tensor:
        marks.marks.clear()
        marks(-1, "step", "begin")
        logits = engine._body(kind, None)
        marks(-1, "step", "end")
        return logits

    attention.lap = marks
    try:
        with torch.inference_mode():
            if cuda:
                graphs = Graphs(engine.device, engine._generator)
                graphs.capture(kind, None, body)
                for part, value in zip(
                    (engine.state.table, engine.state.tokens, engine.state.flags), saved, strict=True
                ):
                    part.copy_(value)
                for _ in range(warm_ups + 1):
                    graphs.replay(kind)
                torch.cuda.synchronize(engine.device)
            else:
                body()
        return marks.rows(attention.side is not None)
    finally:
        attention.lap = None


def chrome_trace(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same for chrome://tracing and Perfetto; times in microseconds."""
    streams = {"main": 1, "selector": 2}
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": tid, "args": {"name": f"{name} stream"}}
        for name, tid in streams.items()
    ]
    for row in rows:
        name = row["stage"] if row["layer"] < 0 else f"{row['stage']} {row['layer']}"
        events.append(
            {
                "name": name, "cat": row["stage"], "ph": "X", "pid": 0, "tid": streams[row["stream"]],
                "ts": row["start_ms"] * 1e3, "dur": (row["end_ms"] - row["start_ms"]) * 1e3, "args": {"layer": row["layer"]},
            }
        )  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_timeline(folder: str | Path, rows: list[dict[str, Any]]) -> None:
    """Into a trace's folder: its table (`sfi_lab.trace.timeline`) and timeline.json (Chrome, Perfetto)."""
    import polars as pl

    root = Path(folder)
    table = root / TIMELINE_FILE
    table.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=TIMELINE).write_parquet(table)
    (root / "timeline.json").write_text(json.dumps(chrome_trace(rows)), encoding="utf-8")
