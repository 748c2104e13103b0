"""Tokens a second against context length, dense and SFI, with the memory bound of each (the paper's figure 4)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    """groups: one per config, with its rows: kind, context, batch, tokens, bound."""

    groups: list[tuple[str, pl.DataFrame]]
    device: str
    refresh: str


def data(material: Material) -> Throughput:
    rows = one_interval(decode_rows(material))
    groups = [
        (config, part.sort("context", "batch")) for (config,), part in rows.group_by("config", maintain_order=True)
    ]
    both = [group for group in groups if {"dense", "sfi"} <= set(group[1]["kind"])]
    # the longest sweeps say most; three panels fill the page
    chosen = sorted(both or groups, key=lambda group: -group[1].select("context", "batch").n_unique())[:3]
    return Throughput(sorted(chosen, key=lambda group: group[0]), where(rows), intervals(rows))


def draw(found: Throughput) -> Figure:
    n = len(found.groups)
    figure = style.new(style.COLUMN if n == 1 else style.PAGE, 2.4)
    axes = figure.subplots(1, n, squeeze=False)[0]
    for mark, (config, rows), at in zip("abc", found.groups, axes, strict=False):
        _panel(at, rows)
        style.letter(at, mark, config)
    axes[0].set_ylabel("tokens a second, whole batch")
    handles = {label: handle for at in axes for handle, label in zip(*at.get_legend_handles_labels(), strict=True)}
    style.legend_above(figure, list(handles.values()), list(handles), 6)
    return figure


def _panel(at: Axes, rows: pl.DataFrame) -> None:
    """One place a context and batch; lines join contexts of the same batch only."""
    places = rows.select("context", "batch").unique().sort("context", "batch").rows()
    for kind, (label, color, marker) in ARMS.items():
        part = rows.filter(pl.col("kind") == kind)
        for batch in part["batch"].unique().sort():
            mine = part.filter(pl.col("batch") == batch)
            x = [places.index((context, batch)) for context in mine["context"]]
            at.plot(x, mine["tokens"], marker=marker, color=color, label=label)
            if kind != "sdpa":
                at.plot(x, mine["bound"], "_", color=color, markersize=9, mew=1.2, label=f"memory bound, {label}")
                at.plot(x, mine["bound"], color=color, linestyle=style.DASHES[2], linewidth=0.8)
    dense = {
        (c, b): t for c, b, t in rows.filter(pl.col("kind") == "dense").select("context", "batch", "tokens").iter_rows()
    }
    for context, batch, speed in rows.filter(pl.col("kind") == "sfi").select("context", "batch", "tokens").iter_rows():
        if (context, batch) in dense:
            at.annotate(
                f"{speed / dense[context, batch]:.1f}×", (places.index((context, batch)), speed), (6, 3), textcoords="offset points",
                ha="left", fontsize=6,
            )  # fmt: skip
    at.set_yscale("log")
    at.set_xticks(range(len(places)), [f"{short(context)}\nbatch {batch}" for context, batch in places])
    at.margins(x=0.2, y=0.14)
    at.set_xlabel("context (positions)")
    at.grid(axis="y")


def caption(found: Throughput) -> str:
    refresh = f" SFI with a slow step every {found.refresh} steps, slow steps included." if found.refresh else ""
    return (
        f"Decode throughput on {found.device}, random weights of the named configurations, both arms in the same runtime.{refresh} Numbers beside the points: SFI over "
        "dense. Bars across: the memory bound of the bytes that the arm has to move, at the device's measured read rate. "
        "Batches differ where memory ends; lines join equal ones."
    )
