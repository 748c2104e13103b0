"""How well a recorded dense trajectory predicts what the run itself keeps, and how far it ends up from dense."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sfi_lab.figures import style
from sfi_lab.figures.arms import COMMAND
from sfi_lab.figures.material import Material

TITLE = "Proxy against re-run"
NEEDS = "a controls study"

GROUPS = ("trigger", "selector", "query", "window", "memory", "preset")


@dataclass(frozen=True, slots=True)
class Proxy:
    rows: pl.DataFrame  # prompt, arm, group, proxy_kept, kept_layers, proxy_error, kl: one a prompt and arm
    rank_kept: str
    rank_error: str
    what: str


def data(material: Material) -> Proxy:
    columns = ("prompt", "arm", "group", "proxy_kept", "kept_layers", "proxy_error", "kl")
    found = material.table(columns, "no controls study is there", COMMAND, pl.col("proxy_kept").is_not_null())
    quality = material.table(
        ("what", "prompts", "value", "low", "high"), "the study says nothing of its proxy", COMMAND
    ).frame
    return Proxy(
        found.frame, _rank(quality, "proxy kept"), _rank(quality, "output error"), f"{found.said()}, {found.frame['prompt'].n_unique()} texts"
    )  # fmt: skip


def _rank(quality: pl.DataFrame, word: str) -> str:
    row = quality.filter(
        pl.col("what").str.starts_with("rank correlation") & pl.col("what").str.contains(word, literal=True)
    ).row(0, named=True)
    return f"ρ = {row['value']:.2f}" + ("" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]")


def draw(found: Proxy) -> Figure:
    figure = style.new(style.PAGE, 2.5)
    left, right = figure.subplots(1, 2)
    _scatter(left, found.rows, "proxy_kept", "kept_layers")
    low, high = min(left.get_xlim()[0], left.get_ylim()[0]), max(left.get_xlim()[1], left.get_ylim()[1])
    left.plot([low, high], [low, high], color=style.FAINT, linewidth=0.7, zorder=0)
    left.set_xlabel("attention mass kept, proxy")
    left.set_ylabel("attention mass kept, run")
    style.letter(left, "a", f"mass kept, {found.rank_kept}")
    positive = found.rows.filter((pl.col("kl") > 0) & (pl.col("proxy_error") > 0))
    _scatter(right, positive, "proxy_error", "kl")
    right.set_xscale("log")
    right.set_yscale("log")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    right.set_xlabel("relative output error, proxy")
    right.set_ylabel("KL to dense, run (nats)")
    style.letter(right, "b", f"distance from dense, {found.rank_error}")
    style.legend_above(figure, *left.get_legend_handles_labels(), 6)
    return figure


def _scatter(at: Axes, rows: pl.DataFrame, x: str, y: str) -> None:
    for group, color, marker in zip(GROUPS, style.SERIES, style.MARKERS, strict=True):
        part = rows.filter(pl.col("group") == group)
        if part.height:
            at.plot(part[x], part[y], marker, color=color, markersize=2.6, mew=0, alpha=0.75, label=group)
    at.grid()


def caption(found: Proxy) -> str:
    return (
        f"Each point is one way of reading one text ({found.rows.height} points; {found.what}): across, what the recorded dense trajectory predicts on "
        "some layers; upwards, what the teacher-forced run gave. ρ: Spearman's rank correlation over the ways of reading, mean over texts "
        "with a 95 % bootstrap interval."
    )
