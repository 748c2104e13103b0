"""Tokens a second against context length, dense and SFI, with the memory bound of each (the paper's figure 4)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sfi_lab.figures import style
from sfi_lab.figures.bench_rows import decode_rows, intervals, one_interval, short, where
from sfi_lab.figures.material import Material

TITLE = "Tokens a second against context, dense and SFI, with the memory bound"
NEEDS = "decode benchmark rows"

ARMS = {
    "dense": ("dense", style.INK, "s"),
    "sfi": ("SFI", style.SELECTED, "o"),
    "sdpa": ("dense, torch SDPA", style.ACROSS, "^"),
}


@dataclass(frozen=True, slots=True)
class Throughput:
    """groups: one per config and batch, with its rows: kind, context, tokens, bound."""

    groups: list[tuple[str, int, pl.DataFrame]]
    device: str
    refresh: str


def data(material: Material) -> Throughput:
    rows = one_interval(decode_rows(material))
    groups = [
        (config, batch, part.sort("context"))
        for (config, batch), part in rows.group_by("config", "batch", maintain_order=True)
    ]
    both = [group for group in groups if {"dense", "sfi"} <= set(group[2]["kind"])]
    # the longest sweeps say most; four panels fill the page
    chosen = sorted(both or groups, key=lambda group: -group[2]["context"].n_unique())[:4]
    return Throughput(sorted(chosen, key=lambda group: group[:2]), where(rows), intervals(rows))


def draw(found: Throughput) -> Figure:
    n = len(found.groups)
    figure = style.new(style.COLUMN if n == 1 else style.PAGE, 2.3)
    axes = figure.subplots(1, n, squeeze=False)[0]
    for mark, (config, batch, rows), at in zip("abcd", found.groups, axes, strict=False):
        _panel(at, rows)
        style.letter(at, mark, f"{config}, batch {batch}")
    axes[0].set_ylabel("tokens a second")
    handles = {label: handle for at in axes for handle, label in zip(*at.get_legend_handles_labels(), strict=True)}
    style.legend_above(figure, list(handles.values()), list(handles), 6)
    return figure


def _panel(at: Axes, rows: pl.DataFrame) -> None:
    for arm, (label, color, marker) in ARMS.items():
        part = rows.filter(pl.col("kind") == arm)
        if not part.height:
            continue
        at.plot(part["context"], part["tokens"], marker=marker, color=color, label=label)
        bound = part.drop_nulls("bound")
        if bound.height and arm != "sdpa":
            at.plot(
                bound["context"],
                bound["bound"],
                color=color,
                linestyle=style.DASHES[2],
                linewidth=0.9,
                label=f"memory bound, {label}",
            )
    dense = dict(rows.filter(pl.col("kind") == "dense").select("context", "tokens").iter_rows())
    for context, speed in rows.filter(pl.col("kind") == "sfi").select("context", "tokens").iter_rows():
        if context in dense:
            at.annotate(
                f"{speed / dense[context]:.1f}×",
                (context, speed),
                (0, -9),
                textcoords="offset points",
                ha="center",
                fontsize=6,
            )
    contexts = sorted(rows["context"].unique().to_list())
    at.set_xscale("log", base=2)
    at.set_yscale("log")
    at.set_xticks(contexts, [short(c) for c in contexts])
    at.xaxis.set_minor_locator(NullLocator())
    at.margins(x=0.08, y=0.14)
    at.set_xlabel("context (positions)")
    at.grid(axis="y")


def caption(found: Throughput) -> str:
    refresh = f" SFI with a slow step every {found.refresh} steps, slow steps included." if found.refresh else ""
    return (
        f"Decode throughput on {found.device}, random weights of the named configurations, both arms in the same runtime.{refresh} Numbers under the points: SFI over "
        "dense. Dotted: the memory bound of the bytes that the arm has to move."
    )
