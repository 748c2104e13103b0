"""Every benchmark runs small on a CPU, and each of its rows says what a figure needs."""

import json

import polars as pl
import pytest

from sfi_lab.cli import main

FACTS = {"bench", "config", "arm", "context", "batch", "ms", "bytes", "bound_ms", "bound_share", "gb_per_s", "device", "torch",
         "transformers", "read_rate_gb_per_s", "dtype", "command"}  # fmt: skip
RUNS = {
    "decode": (
        ["--context", "320", "--refresh", "4", "--k", "24", "--steps", "4"],
        {"dense", "dense sdpa", "fast", "slow", "sfi, refresh every 4"},
    ),
    "kernel": (["--context", "512"], {"dense", "dense with scores", "sdpa", "sparse"}),
    "selector": (["--context", "400", "--k", "32"], {"scores", "top_k", "pack", "refresh", "refresh in torch"}),
}


@pytest.mark.parametrize("what", RUNS)
def test_rows(what, tmp_path, capsys):
    arguments, arms = RUNS[what]
    path = tmp_path / "rows.parquet"
    assert main(["bench", what, *arguments, "--device", "cpu", "--json", "-o", str(path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["arm"] for row in rows} == arms
    assert all(set(row) >= FACTS for row in rows)
    assert all(row["ms"] > 0 for row in rows)
    assert pl.read_parquet(path).height == len(rows)
    if what == "decode":
        forced = next(row for row in rows if row["refresh"] == 4)
        assert forced["slow_share"] == pytest.approx(0.25), "the routes that the device recorded"


def test_what_cannot_be_measured_is_one_sentence(capsys):
    assert main(["bench", "kernel", "--config", "qwen9"]) == 2
    assert "config 'qwen9' is not known; known: qwen3-0.6b" in capsys.readouterr().err
    assert main(["bench", "decode", "--context", "3"]) == 2
    assert "--context 3 is not allowed; allowed: 300 or more" in capsys.readouterr().err
