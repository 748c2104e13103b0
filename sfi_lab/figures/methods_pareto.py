"""Methods at equal budgets: what they answer and how far from dense they are, against the share of keys that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from sfi_lab.figures import style
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.method_rows import (
    COMMAND,
    FAMILIES,
    NEEDS,
    OTHERS,
    Look,
    base,
    budgets,
    family,
    looks,
    ordered,
    summary_of,
    two_lines,
)

TITLE = "Methods: quality against keys read"
__all__ = ["COMMAND", "NEEDS", "TITLE", "Methods", "caption", "data", "draw"]

FLOOR = 1e-5  # nats; what is nearer to dense stands here on the logarithmic axis
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Methods:
    """rows: the summary of `group` over all lengths, one a method and budget, ascending in keys read; dense: its row.

    families: name -> labels, those that were measured.
    """

    rows: pl.DataFrame
    dense: dict
    families: dict[str, list[str]]
    looks: dict[str, Look]
    group: str
    what: str


def data(material: Material) -> Methods:
    found = summary_of(material)
    whole = found.frame.filter(pl.col("length") == 0)
    scored = whole.filter(pl.col("score").is_not_null())["group"].unique(maintain_order=True).to_list()
    groups = scored or whole["group"].unique(maintain_order=True).to_list()
    if not groups:
        raise Missing("the evaluation's summary has no rows over all lengths", COMMAND)
    group = "all" if "all" in groups else groups[0]
    rows = whole.filter(
        (pl.col("group") == group) & pl.col("read_share").is_not_null()
    )  # null: answered by the prompt's step
    dense = rows.filter(pl.col("method") == "dense")
    methods = ordered(rows.filter(pl.col("budget").is_not_null())["method"].to_list())
    if not dense.height or not methods:
        raise Missing("the evaluation has no dense run, or nothing beside it", COMMAND)
    families = {name: [m for m in methods if family(m) == name] for name in (*FAMILIES, OTHERS)}
    return Methods(
        rows.sort("method", "read_share"), dense.row(0, named=True), {name: m for name, m in families.items() if m},
        looks(methods), group, str(found.study.get("model", "")),
    )  # fmt: skip


def draw(found: Methods) -> Figure:
    scored = found.rows["score"].null_count() < found.rows.height
    lines = max(map(len, found.families.values()))
    figure = style.new(style.PAGE, (2.9 if scored else 1.6) + 0.12 * lines + 0.2)
    axes = figure.subplots(1 + scored, len(found.families), sharex=True, sharey="row", squeeze=False)
    for column, (name, methods) in enumerate(found.families.items()):
        above = [m for m in found.rows["method"].unique() if base(m) == "sfi" and m not in methods]
        if scored:
            _scores(axes[0][column], found, methods, above)
        _distances(axes[-1][column], found, methods, above)
        _legend(axes[0][column], name, lines)
    if scored:
        axes[0][0].set_ylabel("score")
        axes[0][0].annotate("dense", (1, found.dense["score"]), (0, 1.5), ("axes fraction", "data"), "offset points",
                            ha="right", va="bottom", fontsize=5.5)  # fmt: skip
    axes[-1][0].set_ylabel("KL to dense (nats)")
    figure.supxlabel("keys read / keys available", fontsize=7)
    return figure


def _legend(at: Axes, name: str, lines: int) -> None:
    """The family's name and its methods above a column; empty lines make all columns as high."""
    handles, labels = at.get_legend_handles_labels()
    empty = lines - len(handles)
    legend = at.legend(
        [*handles, *[Line2D([], [], alpha=0)] * empty], [*labels, *[" "] * empty], title=two_lines(name, 20, "\n "), loc="lower left",
        bbox_to_anchor=(-0.04, 1.0), alignment="left", borderpad=0, borderaxespad=0.3, handlelength=2.2,
    )  # fmt: skip
    legend.get_title().set_fontweight("bold")


def _scores(at: Axes, found: Methods, methods: Sequence[str], above: Sequence[str]) -> None:
    dense = found.dense
    if dense.get("score_low") is not None:
        at.axhspan(dense["score_low"], dense["score_high"], color=style.BAND, zorder=0, linewidth=0)
    at.axhline(dense["score"], color=style.INK, linewidth=0.8, linestyle=style.DASHES[1], zorder=1)
    for label in above:
        _reference(at, found, label, "score")
    for i, label in enumerate(methods):
        mine = found.rows.filter(pl.col("method") == label)
        middle = mine["score"] - mine["difference"]  # an interval of the difference, laid around the method's score
        ends = mine["difference_low"] + middle, mine["difference_high"] + middle
        _series(at, found.looks[label], mine, "score", ends, i - (len(methods) - 1) / 2)
    _axes(at, found)


def _distances(at: Axes, found: Methods, methods: Sequence[str], above: Sequence[str]) -> None:
    for label in above:
        _reference(at, found, label, "kl")
    for i, label in enumerate(methods):
        mine = found.rows.filter(pl.col("method") == label)
        _series(at, found.looks[label], mine, "kl", (mine["kl_low"], mine["kl_high"]), i - (len(methods) - 1) / 2)
    at.set_yscale("log")
    at.yaxis.set_minor_locator(NullLocator())
    _axes(at, found)


def _reference(at: Axes, found: Methods, label: str, what: str) -> None:
    """SFI in the other families' panels, so that each can be held against it."""
    mine = found.rows.filter(pl.col("method") == label)
    at.plot(mine["read_share"], _shown(mine[what], what), color=style.OTHER, linewidth=0.8, alpha=0.7, zorder=1)
    if label == "sfi":
        at.annotate("SFI", (mine["read_share"][-1], _shown(mine[what], what)[-1]), (3, 0), textcoords="offset points",
                    va="center", fontsize=5.5, color=style.FAINT)  # fmt: skip


def _series(
    at: Axes, look: Look, mine: pl.DataFrame, what: str, ends: tuple[pl.Series, pl.Series], aside: float
) -> None:
    """One method's points. aside: its bars stand this many steps right of the points, so that they don't hide each other."""
    on_top = 0.5 if mine["method"][0] == "sfi" else 0.0  # its variants are often where it is: larger, and below it
    x, y = mine["read_share"].to_numpy(), _shown(mine[what], what)
    low, high = (_shown(end, what) for end in ends)
    looked = mine["scored_share"].fill_null(0).to_numpy()
    shifted = at.transData + ScaledTranslation(1.6 * aside / 72, 0, at.figure.dpi_scale_trans)
    at.vlines(x, low, high, color=look.color, linewidth=0.9, alpha=0.7, transform=shifted, zorder=1 + on_top)
    ends = np.column_stack([np.tile(x, 2), np.concatenate([low, high])])
    at.update_datalim(ends[np.isfinite(ends).all(1)])  # lines beside their place are not looked at by themselves
    for i in np.flatnonzero(looked > 0):  # a second tick: keys read and keys looked at only to choose, together
        at.plot([x[i], x[i] + looked[i]], [y[i]] * 2, color=look.color, linewidth=0.6, linestyle=style.DASHES[2])
        at.plot(x[i] + looked[i], y[i], "|", color=look.color, markersize=5)
    at.plot(x, y, marker=look.marker, color=look.color, linestyle=look.dashes, mfc="white" if looked.any() else look.color,
            markersize=4.5 if look.marker == "*" else 2.6 if on_top else 3.4, label=look.name, zorder=3 + on_top)  # fmt: skip


def _shown(values: pl.Series, what: str) -> np.ndarray:
    numbers = values.cast(pl.Float64).to_numpy()
    return np.maximum(numbers, FLOOR) if what == "kl" else numbers


def _axes(at: Axes, found: Methods) -> None:
    most = (found.rows["read_share"] + found.rows["scored_share"].fill_null(0)).max()
    least = found.rows["read_share"].min()
    at.set_xscale("log")
    at.set_xlim(0.8 * least, 1.15 * max(1.0, most))
    at.xaxis.set_major_locator(FixedLocator(SHARES))
    at.xaxis.set_minor_locator(NullLocator())
    at.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    at.grid()


def caption(found: Methods) -> str:
    sizes = ", ".join(map(str, budgets(found.rows)))
    dense = found.dense
    group = "all kinds of tasks that have answers" if found.group == "all" else found.group
    scores = ""
    if dense["score"] is not None:
        known = dense.get("score_low") is not None
        scores = (
            f"Dashed: dense, score {dense['score']:.3f}"
            + (f", its 95 % interval shaded [{dense['score_low']:.3f}, {dense['score_high']:.3f}]" if known else "")
            + ". Bars of the scores: 95 % paired bootstrap intervals of the difference to dense on the same prompts, so one that meets the dashed line leaves "
            "no difference found; where few prompts differ, so can one that doesn't (table4 has the words). "
        )
    arms = found.rows.filter(pl.col("budget").is_not_null())
    floor = f", those below {FLOOR:g} drawn there" if (arms["kl"] < FLOOR).any() else ""
    grey = " The grey line in the other panels is SFI." if "sfi" in found.looks and len(found.families) > 1 else ""
    hollow = (
        " Hollow: the method also looks at keys, or vectors of their size, only to choose; the small upright tick stands at those and the keys read together."
        if (arms["scored_share"] > 0).any()
        else ""
    )
    return (
        f"{found.what + ', ' if found.what else ''}{group}, {dense['n']} prompts each, budgets of {sizes} positions a layer and KV head; a point a budget. {scores}"
        f"KL: mean over the steps of dense's own continuation, fed to the method{floor}.{grey}{hollow}"
    )
