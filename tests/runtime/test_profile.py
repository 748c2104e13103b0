"""The timeline of a step, and its files."""

import json

import pytest

from runtime_cases import FULL, engine, moved, periodic, prompts
from sfi_lab.errors import SfiError
from sfi_lab.runtime.profile import chrome_trace, timeline, write_timeline
from sfi_lab.trace.timeline import read_timeline


@pytest.fixture
def rows(lab_of):
    lab = moved(lab_of("llama", **FULL["llama"]))
    made = engine(lab, periodic(period=1), 1)
    made.generate(prompts(lab, (60,)), 4)
    return timeline(made, "slow")


def test_every_layer_has_its_stages_in_order(rows):
    whole = next(row for row in rows if row["stage"] == "step")
    for layer in range(3):
        mine = {row["stage"]: row for row in rows if row["layer"] == layer}
        assert list(mine) == ["attention", "selector", "topk", "pack"], f"layer {layer}"
        ends = [whole["start_ms"], *(row["end_ms"] for row in mine.values())]
        starts = [*(row["start_ms"] for row in mine.values()), whole["end_ms"]]
        assert all(end <= start + 1e-3 for end, start in zip(ends, starts, strict=True)), f"layer {layer}: {mine}"


def test_files_can_be_read_again(rows, tmp_path):
    with pytest.raises(SfiError, match="has no timeline"):
        read_timeline(tmp_path)
    write_timeline(tmp_path, rows)
    assert read_timeline(tmp_path).columns == ["layer", "stream", "stage", "start_ms", "end_ms"]
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert events == chrome_trace(rows)["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(rows)
