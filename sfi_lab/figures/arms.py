"""Rows of a controls study: every way of reading against the sentence trigger, paired by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from sfi_lab.analysis.statistics import Estimate
from sfi_lab.figures import style
from sfi_lab.figures.material import Material
from sfi_lab.figures.rows import Row, dots, in_points, refresh_column, zero_line

COMMAND = "sfi-lab study controls -o DIR"
COLUMNS = ("arm", "group", "prompts", "refreshes", "equal_refreshes", "kl_ratio", "kl_ratio_low", "kl_ratio_high", "p_holm", "kept_gain",
           "kept_gain_low", "kept_gain_high", "kl", "read_share")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arms:
    """ratio: log10 of KL over the reference's; gain: mass kept minus the reference's, points. Hollow: not at equal refreshes."""

    ratio: list[Row]
    gain: list[Row]
    refreshes: list[float]
    base_kl: float
    base_refreshes: float
    prompts: int
    what: str
    oracle: float | None  # KL ratio of the oracle Top-K, which is said and not drawn: it would squeeze everything else


def from_study(material: Material, groups: Sequence[str]) -> Arms:
    """The arms of these groups; Missing if there is no controls study."""
    found = material.table(COLUMNS, "no controls study is there", COMMAND)
    base = found.frame.filter(pl.col("kl_ratio").is_null() & (pl.col("group") != "dense")).row(0, named=True)
    ratio, gain, refreshes, oracle = [], [], [], None
    for row in found.frame.filter(pl.col("group").is_in(groups) & pl.col("kl_ratio").is_not_null()).iter_rows(
        named=True
    ):
        if row["arm"].startswith("oracle"):
            oracle = row["kl_ratio"]
            continue
        hollow = not row["equal_refreshes"]
        logs = [
            np.nan if row[name] is None else float(np.log10(row[name]))
            for name in ("kl_ratio", "kl_ratio_low", "kl_ratio_high")
        ]
        kept = [np.nan if row[name] is None else row[name] for name in ("kept_gain", "kept_gain_low", "kept_gain_high")]
        ratio.append(Row(row["arm"], Estimate(*logs, np.nan if row["p_holm"] is None else row["p_holm"]), hollow))
        gain.append(Row(row["arm"], in_points(Estimate(*kept)), hollow))
        refreshes.append(row["refreshes"])
    return Arms(ratio, gain, refreshes, base["kl"], base["refreshes"], base["prompts"], found.said(), oracle)


def draw_arms(found: Arms) -> Figure:
    figure = style.new(style.PAGE, 0.75 + 0.19 * len(found.ratio))
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    zero_line(left)
    dots(left, found.ratio, style.SLOW)
    _ratio_ticks(left, found.ratio)
    left.set_xlabel("KL to dense ÷ KL of the sentence trigger")
    style.letter(left, "a", "distance from dense (left is better)")
    for place, row in enumerate(found.ratio):
        if row.value.p < 0.05:
            left.text(1.0, place, "*", transform=left.get_yaxis_transform(), va="center", ha="left", fontsize=8)
    zero_line(right)
    dots(right, found.gain, style.SELECTED, labels=False)
    right.set_xlabel("mass kept, difference (points)")
    style.letter(right, "b", "attention mass kept (right is better)")
    refresh_column(right, found.refreshes, -0.9)
    return figure


def _ratio_ticks(at, rows: Sequence[Row]) -> None:
    """Ticks at round ratios on a logarithmic axis."""
    ends = [x for row in rows for x in (row.value.low, row.value.high, row.value.value) if np.isfinite(x)] or [0.0]
    span = max(ends) - min(ends)
    steps = (0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2) if span < 0.6 else (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    inside = [t for t in steps if min(ends) - 0.1 < np.log10(t) < max(ends) + 0.1]
    at.xaxis.set_major_locator(FixedLocator([float(np.log10(t)) for t in inside]))
    at.xaxis.set_minor_locator(NullLocator())
    at.set_xticklabels([f"{t:g}" for t in inside])


def caption_arms(found: Arms, about: str) -> str:
    return (
        f"{about} {found.what}; {found.prompts} texts, teacher-forced on the same tokens; the sentence trigger made {found.base_refreshes:.1f} refreshes a text at "
        f"a KL of {found.base_kl:.4f} nats. Means of paired differences over texts with 95 % bootstrap intervals; *: p < 0.05 after Holm's correction over all "
        "arms. Hollow: not at an equal number of refreshes."
        + (
            f" An oracle Top-K at every step has {found.oracle:.2f} of the sentence trigger's KL."
            if found.oracle is not None
            else ""
        )
    )
