"""Table 1 as measured here: the sparse kernel against our own dense one, by share of keys kept."""

from __future__ import annotations

import polars as pl

from sfi_lab.figures import published
from sfi_lab.figures.bench_rows import KERNEL, KERNEL_COMMAND, short, where
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.table import Table

TITLE = "Kernel speed-up by share of keys kept (the paper's table 1)"
NEEDS = "kernel benchmark rows"


def table(material: Material) -> Table:
    rows = material.rows(KERNEL, "no kernel benchmark is there", KERNEL_COMMAND)
    sparse = rows.filter((pl.col("arm") == "sparse") & pl.col("kept").is_not_null())
    if not sparse.height:
        raise Missing("the kernel rows hold no sparse arm", KERNEL_COMMAND)
    config, context, batch = _setting(sparse)
    at = (pl.col("config") == config) & (pl.col("context") == context) & (pl.col("batch") == batch)
    dense = rows.filter(at & (pl.col("arm") == "dense"))["ms"].min()
    if dense is None:
        raise Missing("the kernel rows hold no dense arm of the same configuration", KERNEL_COMMAND)
    cells = []
    for kept, ms in sparse.filter(at).group_by("kept").agg(pl.col("ms").min()).sort("kept").iter_rows():
        share = kept / context
        near = min(published.KERNEL, key=lambda s: abs(s - share))
        printed = f"{published.KERNEL[near]:.2f}×" if abs(near - share) < 0.006 else None
        cells.append((f"{share:.1%}", f"{1000 * ms:.1f}", f"{dense / ms:.2f}×", f"{1 / share:.1f}×", printed))
    caption = (
        f"Decode attention of one layer of {config}, {short(context)} positions, batch {batch}, on {where(rows)}; our dense kernel takes {1000 * dense:.1f} µs. "
        f"Ideal: as many times faster as keys are left out. Published ({published.SOURCE}, table 1): B200, KV 16K, batch 16, over their own "
        "dense kernel - another device and another baseline."
    )
    head = ("keys kept", "time (µs)", "speed-up, measured here", "ideal", "published speed-up")
    return Table(head, tuple(cells), caption, "kernel")


def _setting(sparse: pl.DataFrame) -> tuple[str, int, int]:
    """The paper's context and batch if they were measured, else the setting with the most rows."""
    counts = sparse.group_by("config", "context", "batch").agg(pl.len().alias("n"))
    wanted = counts.filter((pl.col("context") == 16384) & (pl.col("batch") == 16))
    best = (wanted if wanted.height else counts).sort(
        "n", "context", "batch", "config", descending=[True, True, True, False]
    )
    return best.select("config", "context", "batch").row(0)
