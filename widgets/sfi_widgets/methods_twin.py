"""Static twin of the methods panel: the points under the current choices as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sfi_lab.errors import SfiError
from sfi_lab.methods.families import INK, Mark, base, marks

from .methods_points import QUALITIES, group_title
from .twins import OTHER

if TYPE_CHECKING:
    from .methods_panel import MethodsPanel

SERIES = (
    "#0b3c6f",
    "#e08a00",
    "#00a878",
    "#e58cc4",
    "#5fb2f0",
    "#70777f",
)  # the figures' own; a test holds them together
DENSE, BAND = "#24292f", "#e4e8ec"
DASHES = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)))
FLOOR = 1e-5  # nats; what is nearer to dense stands here on the logarithmic axis
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def methods_figure(panel: MethodsPanel) -> Figure:
    """Quality against keys read; SfiError where the chosen quality was not measured."""
    rows = panel.shown()
    arms = rows.filter(pl.col("budget").is_not_null() & pl.col(panel.quality).is_not_null())
    if not arms.height:
        raise SfiError(
            f"{QUALITIES[panel.quality]} was not measured for {group_title(panel.group)}, {panel.length_title}"
        )
    looks = {label: m for label, m in marks([p["label"] for p in panel.points["methods"]]).items() if m.series != INK}
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    _dense(axes, rows.filter(pl.col("method") == "dense"), panel.quality)
    for label, look in sorted(looks.items(), key=lambda one: base(one[0]) == "sfi"):  # last, so that nothing covers it
        _method(axes, look, arms.filter(pl.col("method") == label), panel)
    axes.set_xscale("log")
    axes.set_xlim(0.8 * arms["read"].min(), 1.15 * max(1.0, (arms["read"] + arms["looked"]).max()))
    axes.xaxis.set(major_locator=FixedLocator(SHARES), minor_locator=NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    if panel.quality != "score":
        axes.set_yscale("log")
    if panel.quality == "perplexity":
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(FixedLocator([0.5, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))
    axes.set_xlabel("keys read / keys available", fontsize=8)
    axes.set_ylabel(QUALITIES[panel.quality], fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(color=BAND, linewidth=0.6)
    axes.set_axisbelow(True)
    what = f"{group_title(panel.group)}, {panel.length_title}, {arms['n'].max()} prompts"
    axes.set_title(f"Methods: {what}", fontsize=9, loc="left")
    drawn = [m for label, m in looks.items() if label in set(arms["method"])]
    legend = figure.legend(
        handles=_handles(drawn), loc="outside right upper", fontsize=6.5, frameon=False, handlelength=2.4
    )
    for text in legend.get_texts():
        if text.get_text() in {m.family for m in drawn}:
            text.set_weight("bold")
    return figure


def _dense(axes: Any, dense: pl.DataFrame, quality: str) -> None:
    if quality == "perplexity":
        axes.axhline(1.0, color=DENSE, lw=0.9, ls=DASHES[1], zorder=1)
    if quality == "score" and dense.height and dense["score"][0] is not None:
        if dense["score_low"][0] is not None:
            axes.axhspan(dense["score_low"][0], dense["score_high"][0], color=BAND, lw=0, zorder=0)
        axes.axhline(dense["score"][0], color=DENSE, lw=0.9, ls=DASHES[1], zorder=1)


def _method(axes: Any, look: Mark, mine: pl.DataFrame, panel: MethodsPanel) -> None:
    if not mine.height:
        return
    colour = SERIES[look.series]
    floor = FLOOR if panel.quality == "kl" else -np.inf
    names = (panel.quality, f"{panel.quality}_low", f"{panel.quality}_high")
    y, low, high = (np.maximum(mine[name].cast(pl.Float64).to_numpy(), floor) for name in names)
    x, looked = mine["read"].to_numpy(), mine["looked"].to_numpy()
    axes.vlines(x, low, high, color=colour, lw=0.9, alpha=0.7)
    for i in np.flatnonzero(looked > 0):
        axes.plot([x[i], x[i] + looked[i]], [y[i]] * 2, color=colour, lw=0.6, ls=DASHES[2])
        axes.plot(x[i] + looked[i], y[i], "|", color=colour, ms=6)
    size = 6 if look.marker == "*" else 3.4 if base(mine["method"][0]) == "sfi" else 4.4
    axes.plot(x, y, marker=look.marker, color=colour, lw=1.1, ls=DASHES[look.variant % len(DASHES)], ms=size,
              mfc="white" if looked.any() else colour, zorder=3)  # fmt: skip
    for i, budget in enumerate(mine["budget"]):
        if panel.selected == [mine["method"][i], budget]:
            axes.plot(x[i], y[i], "o", ms=11, mfc="none", mec=OTHER, mew=1.2, zorder=4)


def _handles(drawn: list[Mark]) -> list[Line2D]:
    """A line a method under its family's name, dense last."""
    found, family = [], ""
    for look in drawn:
        if look.family != family:
            family = look.family
            found.append(Line2D([], [], alpha=0, label=family))
        colour = SERIES[look.series]
        found.append(Line2D([], [], color=colour, marker=look.marker, ms=4.2, lw=1.1, ls=DASHES[look.variant % len(DASHES)], label=look.name))  # fmt: skip
    return [*found, Line2D([], [], color=DENSE, lw=0.9, ls=DASHES[1], label="Dense")]
