"""A number hidden in the text: how often it is found, by where it lies and how long the prompt is, a map a method."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sfi_lab.figures import style
from sfi_lab.figures.bench_rows import short
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.method_rows import COMMAND, budgets, ordered, samples_of, title

TITLE = "Needle in a haystack: depth and length, a map a method"
NEEDS = "an evaluation with single_needle"
__all__ = ["COMMAND", "NEEDS", "TITLE", "Map", "Needles", "caption", "data", "draw"]

BINS = 5  # equal parts of the prompt
ROW = 7  # maps beside each other, at most
LETTERS = 108  # of a title's size that fit into the page's width beside the labels and the colour bar
_SINGLE = (pl.col("kind") == "single_needle") | pl.col("kind").str.starts_with("single_needle@")


@dataclass(frozen=True, slots=True)
class Map:
    """One method. score: float64 [BINS, lengths], mean, nan where nothing was measured; n: int [BINS, lengths] prompts."""

    name: str
    score: np.ndarray
    n: np.ndarray


@dataclass(frozen=True, slots=True)
class Needles:
    maps: list[Map]
    lengths: list[int]
    budget: int
    others: list[int]  # budgets that were measured and are not drawn
    chosen: bool  # by `telling`, not by whoever asked
    what: str


def data(material: Material, budget: int | None = None) -> Needles:
    """Maps at one budget, by default that of `telling`. Prompts whose depth was pinned (single_needle@0.25) count with the others."""
    found = samples_of(material, _SINGLE & pl.col("depth").is_not_null() & pl.col("score").is_not_null())
    frame, sizes = found.frame, budgets(found.frame)
    if not sizes:
        raise Missing("only dense was run on single_needle", COMMAND)
    if chosen := budget is None:
        budget = telling(frame)
    elif budget not in sizes:
        raise Missing(
            f"single_needle was not run at a budget of {budget} (but at {', '.join(map(str, sizes))})", COMMAND
        )
    lengths = frame["length"].unique().sort().to_list()
    rows = frame.filter((pl.col("budget") == budget) | (pl.col("method") == "dense")).with_columns(
        (pl.col("depth") * BINS).floor().clip(0, BINS - 1).cast(pl.Int32).alias("bin")
    )
    maps = [_map(label, rows.filter(pl.col("method") == label), lengths) for label in ordered(rows["method"].to_list())]
    others = [size for size in sizes if size != budget]
    return Needles(maps, lengths, budget, others, chosen, str(found.study.get("model", "")))


def telling(frame: pl.DataFrame) -> int:
    """The budget that sets the methods apart best: of those at which the most methods were run the one with the largest variance
    between the methods' mean scores (each over all its prompts), the smaller of two equal ones.

    frame: samples with method, budget (null for dense) and score. Too small a budget fails everywhere but for a few methods, too
    large a one nowhere; both say little.
    """
    means = frame.drop_nulls("budget").group_by("budget", "method").agg(pl.col("score").mean())
    spread = means.group_by("budget").agg(pl.len().alias("methods"), pl.col("score").var(ddof=0).alias("variance"))
    return max(
        spread.iter_rows(named=True), key=lambda row: (row["methods"], round(row["variance"], 12), -row["budget"])
    )["budget"]


def _map(label: str, rows: pl.DataFrame, lengths: list[int]) -> Map:
    score, n = np.full((BINS, len(lengths)), np.nan), np.zeros((BINS, len(lengths)), int)
    cells = rows.group_by("bin", "length").agg(pl.col("score").mean(), pl.len().alias("n"))
    for at, length, mean, count in cells.select("bin", "length", "score", "n").iter_rows():
        score[at, lengths.index(length)], n[at, lengths.index(length)] = mean, count
    return Map(title(label), score, n)


def draw(found: Needles) -> Figure:
    rows = -(-len(found.maps) // ROW)
    columns = -(-len(found.maps) // rows)  # rows as full as they can be
    figure = style.new(style.PAGE, 0.55 + 1.2 * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for at, one in zip(axes.flat, found.maps, strict=False):
        image = _panel(at, one, LETTERS // columns)
    for at in list(axes.flat)[len(found.maps) :]:
        at.remove()
    for column in range(columns):  # the lowest map of each column has the lengths
        last = [at for at in axes[:, column] if at.figure is not None][-1]
        last.tick_params(labelbottom=True)
        last.set_xticks(
            range(len(found.lengths)),
            [short(length) for length in found.lengths],
            rotation=90 if len(found.lengths) > 3 else 0,
        )
    for row in axes:
        row[0].set_yticks([-0.5, BINS / 2 - 0.5, BINS - 0.5], ["start", "middle", "end"])
    figure.supxlabel("length of the prompt (tokens)", fontsize=7)
    figure.supylabel("where the number lies", fontsize=7)
    bar = figure.colorbar(image, ax=list(figure.axes), fraction=0.03, pad=0.01, aspect=30)
    bar.set_label("share of the numbers found")
    bar.outline.set_visible(False)
    if any((one.n == 0).any() for one in found.maps):
        figure.legend(handles=[_unmeasured((0, 0))], loc="outside lower right", handlelength=1.2)
    return figure


def _panel(at: Axes, one: Map, letters: int):
    image = at.imshow(one.score, vmin=0, vmax=1, cmap=style.MAP, aspect="auto")
    for (row, column), n in np.ndenumerate(one.n):
        if n == 0:
            at.add_patch(_unmeasured((column, row)))
        else:
            dark = one.score[row, column] < 0.6  # of the map's colours
            at.text(column, row, str(n), ha="center", va="center", fontsize=5, color="white" if dark else style.INK)
    at.set_title(_broken(one.name, letters), fontsize=6.5)
    for places, line in ((range(1, one.n.shape[1]), at.axvline), (range(1, BINS), at.axhline)):
        for place in places:
            line(place - 0.5, color="white", linewidth=0.5)
    at.tick_params(length=0, labelbottom=False)
    at.spines[:].set_visible(False)
    return image


def _broken(name: str, letters: int) -> str:
    """A title in lines of so many letters; what is in brackets goes together onto a line of its own where it doesn't fit beside."""
    if len(name) <= letters:
        return name
    return "\n".join(line for part in name.replace(" (", "\n(").split("\n") for line in wrap(part, letters))


def _unmeasured(place: tuple[int, int]) -> Rectangle:
    """A hatched cell; at the place it also serves as the legend's key."""
    column, row = place
    return Rectangle(
        (column - 0.5, row - 0.5),
        1,
        1,
        facecolor=style.BAND,
        edgecolor="white",
        hatch="////",
        linewidth=0,
        label="not measured",
    )


def caption(found: Needles) -> str:
    n = np.concatenate([one.n.ravel() for one in found.maps])
    measured = n[n > 0]
    each = f"{measured.min()}" if measured.min() == measured.max() else f"{measured.min()} to {measured.max()}"
    also = (
        f" Of the budgets this one sets the methods' means furthest apart; also run, not drawn: {', '.join(map(str, found.others))}."
        if found.others and found.chosen
        else f" Also run, not drawn: budgets of {', '.join(map(str, found.others))}."
        if found.others
        else ""
    )
    return (
        f"{found.what + ', ' if found.what else ''}single_needle at a budget of {found.budget} positions a layer and KV head (dense reads all of them): the share of "
        f"prompts whose hidden number was given, by the part of the prompt it lies in (fifths, the beginning at the top) and the length of the prompt. Numbers: prompts "
        f"of a cell, {each}; so few can only show where a method fails throughout, not small differences. Hatched: not measured.{also}"
    )
