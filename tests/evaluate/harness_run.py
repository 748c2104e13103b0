"""One small evaluation, as the tests of this room ask for it."""

import polars as pl

from sfi_lab import Settings
from sfi_lab.evaluate import evaluate

METHODS = "sfi,streaming,sfi_rectified"
SETTINGS = Settings.paper(sink=2, trigger="period", period=4, nms_radius=2)


def run(lab, out, **over):
    asked = {
        "methods": METHODS, "tasks": "single_needle", "budgets": (24, 40), "contexts": (400,), "samples": 2,
        "settings": SETTINGS, "max_new_tokens": 6, "out": out,
    } | over  # fmt: skip
    return evaluate(lab, asked.pop("methods"), asked.pop("tasks"), asked.pop("out"), **asked)


def samples(out):
    return pl.read_parquet(out / "samples.parquet")
