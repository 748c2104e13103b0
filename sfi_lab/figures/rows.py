"""Horizontal dot plot: one row a variant, a dot with its interval; used by every comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from sfi_lab.analysis.statistics import Estimate
from sfi_lab.figures import style


@dataclass(frozen=True, slots=True)
class Row:
    """One variant. value: with its interval; marked: drawn hollow (the baseline, or another kind of number)."""

    label: str
    value: Estimate
    marked: bool = False


def dots(at: Axes, rows: Sequence[Row], color: str = style.WITHIN, labels: bool = True) -> None:
    """Draws rows from the top down; a row without an interval is a bare dot."""
    y = np.arange(len(rows))
    for place, row in zip(y, rows, strict=True):
        v = row.value
        if np.isfinite(v.low):
            at.plot([v.low, v.high], [place, place], color=color, linewidth=1.0, solid_capstyle="butt")
        at.plot([v.value], [place], "o", color=color, mfc="white" if row.marked else color, markersize=3.6)
    at.locator_params(axis="x", nbins=5)
    at.set_ylim(len(rows) - 0.5, -0.5)
    at.set_yticks(y, [row.label for row in rows] if labels else [])
    at.grid(axis="x")
    at.spines["left"].set_visible(False)
    at.tick_params(axis="y", length=0)


def zero_line(at: Axes) -> None:
    """Where there is no difference."""
    at.axvline(0, color=style.FAINT, linewidth=0.7, zorder=0)


def refresh_column(at: Axes, counts: Sequence[float], head: float) -> None:
    """How often each row's arm refreshed, right of the axes; `head` is the height of the column's heading."""
    beside = {"transform": at.get_yaxis_transform(), "va": "center", "color": style.FAINT}
    for place, count in enumerate(counts):
        at.text(1.02, place, f"{count:.0f}", **beside)
    at.text(1.02, head, "refreshes", ha="center", fontsize=6, **beside)


def in_points(e: Estimate) -> Estimate:
    """A share in percent, a difference of shares in points of a hundred."""
    return Estimate(100 * e.value, 100 * e.low, 100 * e.high, e.p, e.n)
