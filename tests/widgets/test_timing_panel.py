"""Slow-step timing: the memory bound, and streams from the trace's folder, a file or a frame."""

import numpy as np
import polars as pl
import pytest

from sfi_lab import SfiError, Trace
from sfi_lab.analysis import memory_bound
from sfi_lab.runtime.profile import write_timeline
from sfi_widgets import SlowStepTiming, Workbench
from synthetic_trace import write_trace

ROWS = [
    {"layer": 0, "stream": "main", "stage": "attention", "start_ms": 0.0, "end_ms": 0.4},
    {"layer": 0, "stream": "selector", "stage": "selector", "start_ms": 0.4, "end_ms": 0.7},
    {"layer": 1, "stream": "main", "stage": "attention", "start_ms": 0.4, "end_ms": 0.8},
    {"layer": -1, "stream": "main", "stage": "step", "start_ms": 0.0, "end_ms": 1.0},
]


def test_bound_is_that_of_the_analysis(trace):
    panel = SlowStepTiming(trace)
    assert panel.bound == {}
    panel.bandwidth = 25.0
    frame = memory_bound(trace, 25e9)
    np.testing.assert_allclose(np.frombuffer(panel.bound["values"], np.float32)[1:], frame["bound"], rtol=1e-6)
    slow = frame.filter(pl.col("route") == "slow")["times_bound"].median()
    assert panel.bound["times_bound"]["slow"] == pytest.approx(slow)
    panel.bandwidth = -3.0
    assert panel.bound == {} and panel.error.startswith("bandwidth = -3 GB/s is not allowed")
    panel.bandwidth = 0.0
    assert panel.error == ""


def test_streams_of_the_traces_own_folder(tmp_path):
    root = write_trace(tmp_path / "profiled", steps=30)
    write_timeline(root, ROWS)
    panel = Workbench(Trace.open(root)).timing
    assert len(panel.profiles) == 1 and panel.profiles[0]["title"] == "profiled step"
    assert [row[:3] for row in panel.profiles[0]["rows"]] == [[r["layer"], r["stream"], r["stage"]] for r in ROWS]
    assert repr(panel).endswith("1 profiled)")


def test_streams_of_a_file_with_several_profiles(trace, tmp_path):
    frame = pl.concat([pl.DataFrame(ROWS).with_columns(batch=b, kind=pl.lit("slow")) for b in (1, 8)])
    frame.write_parquet(tmp_path / "timeline.parquet")
    panel = Workbench(trace, timeline=tmp_path / "timeline.parquet").timing
    assert [p["title"] for p in panel.profiles] == ["batch 1, slow", "batch 8, slow"]
    assert SlowStepTiming(trace).profiles == [], "no timeline, no lanes"


def test_a_wrong_timeline_is_refused_in_a_sentence(trace, tmp_path):
    with pytest.raises(SfiError, match="does not exist"):
        SlowStepTiming(trace, tmp_path / "nothing.parquet")
    with pytest.raises(SfiError, match="missing: stage, end_ms"):
        SlowStepTiming(trace, pl.DataFrame(ROWS).drop("stage", "end_ms"))
