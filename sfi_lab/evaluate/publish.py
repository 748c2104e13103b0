"""The evaluation's tables and report, made from what lies in its folder; no model is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sfi_lab.errors import SfiError
from sfi_lab.evaluate.report import sections
from sfi_lab.evaluate.summary import summarise
from sfi_lab.settings import Settings
from sfi_lab.studies.report import document
from sfi_lab.studies.store import Store, read_config

_RUNS = "runs.json"  # machine and command of every call that decoded something


def note_run(root: Path, machine: dict[str, Any], command: str) -> None:
    """Adds a call to OUT/runs.json, once."""
    runs = _runs(root)
    run = {"machine": machine, "command": command}
    if run not in runs:
        partial = root / f"{_RUNS}.{os.getpid()}.partial"
        partial.write_text(json.dumps([*runs, run], indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(partial, root / _RUNS)


def republish(out: str | Path) -> dict[str, Any]:
    """Tables and report of everything finished in an evaluation's folder; returns what `evaluate` does.

    For folders that several processes filled, or that were copied from another machine. Raises SfiError for a folder that
    holds no evaluation.
    """
    root = Path(out)
    config = read_config(root) or {}
    if config.get("study") != "evaluate":
        raise SfiError(f"{root} holds no evaluation; allowed: the -o folder of an earlier sfi-lab evaluate")
    store = Store(root, config)
    return publish(store, sorted(path.parent.name for path in store.work.glob("*/done")))


def publish(store: Store, names: Sequence[str]) -> dict[str, Any]:
    """Writes samples.parquet, summary.parquet and report.md of these tasks; the summary as plain values."""
    frame = store.frame("rows", list(names)).drop("prompt")
    summary, runs = summarise(frame), _runs(store.root)
    machines = list({json.dumps(run["machine"]): run["machine"] for run in runs}.values()) or [{}]
    parts = [("Setting", _setting(store.config, frame)), *sections(frame, summary)]
    report = document("Methods compared at equal budgets", parts, [(run["machine"], run["command"]) for run in runs])
    store.publish({"samples": frame, "summary": summary}, report)
    return {
        "out": str(store.root),
        "tasks": frame["task"].n_unique(),
        "arms": len(store.config["arms"]),
        "machines": machines,
        "summary": summary.to_dicts(),
    }


def _runs(root: Path) -> list[dict[str, Any]]:
    path = root / _RUNS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _setting(config: dict[str, Any], samples: pl.DataFrame) -> str:
    lengths = samples.filter(pl.col("length") > 0)["length"].unique().sort().to_list()
    settings = [Settings.from_dict(values) for values in config["settings"]]
    sizes = list(dict.fromkeys((s.sink + s.recent + s.k, s.recent) for s in settings[1:]))
    recents = ", ".join(f"{recent} of {budget}" for budget, recent in sizes)
    return (
        f"Model {config['model']} ({config['dtype']}), {samples['task'].n_unique()} tasks"
        + (f" at {', '.join(map(str, lengths))} tokens" if lengths else "")
        + f", budgets {', '.join(str(budget) for budget, _ in sizes)} positions per layer and KV head ({settings[-1].sink} sink, "
        f"recent {recents}), greedy. Every prompt is read with dense attention; a method decides what the decode steps read. "
        f"Settings beside recent and K: `{settings[-1].to_code()}` at the largest budget."
    )
