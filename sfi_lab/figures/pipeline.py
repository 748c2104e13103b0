"""The measured two-stream pipeline of a slow step (the paper's figure 3): what ran when, on which stream."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sfi_lab.figures import style
from sfi_lab.figures.bench_rows import TIMELINE, TIMELINE_COMMAND
from sfi_lab.figures.material import Material

TITLE = "The measured pipeline of a slow step"
NEEDS = "the timeline of a profiled run"

LAYERS = 6  # shown large: the first ones
REST = "#d3d8dd"
COLORS = {"attention": style.INK, "selector": style.SELECTED, "topk": style.ACROSS, "pack": style.SLOW}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """rows: stream, stage, layer, start, end (µs since the step began); length: of the step; hidden: share of the second
    stream's work done before the last layer's attention had ended, nan with one stream."""

    rows: pl.DataFrame
    length: float
    layers: int
    hidden: float
    what: str


def data(material: Material) -> Pipeline:
    tables = material.tables(TIMELINE, "no timeline of a profiled run is there", TIMELINE_COMMAND)
    found = max(tables, key=lambda table: table.frame["stream"].n_unique())  # with overlap, where both were profiled
    material.use([found.path])
    rows = found.frame.select(
        "stream",
        "stage",
        "layer",
        (pl.col("start_ms") * 1e3).cast(pl.Float64).alias("start"),
        (pl.col("end_ms") * 1e3).cast(pl.Float64).alias("end"),
    )
    step, work = rows.filter(pl.col("stage") == "step"), rows.filter(pl.col("stage") != "step").sort("start")
    length = float(step["end"][0] if step.height else work["end"].max())
    place = found.path.parent.parent if found.path.parent.name == "timeline" else found.path
    return Pipeline(work, length, work["layer"].n_unique(), hidden_share(work), place.stem)


def hidden_share(work: pl.DataFrame) -> float:
    """Share of the second stream's time before the end of the last attention: by then the main stream had work of its own."""
    until = work.filter(pl.col("stage") == "attention")["end"].max()
    side = work.filter(pl.col("stream") != "main")
    total = (side["end"] - side["start"]).sum()
    beside = (
        side.select((pl.min_horizontal("end", pl.lit(until)) - pl.col("start")).clip(0))["end"].sum()
        if side.height
        else 0.0
    )
    return beside / total if total else float("nan")


def draw(found: Pipeline) -> Figure:
    streams = ["main", *sorted(set(found.rows["stream"]) - {"main"})]
    figure = style.new(style.PAGE, 1.3 + 0.5 * len(streams))
    above, below = figure.subplots(2, 1)
    layers = found.rows["layer"].unique().sort().to_list()
    first = found.rows.filter(pl.col("layer").is_in(layers[:LAYERS]))
    _bars(above, first, streams, first["end"].max(), numbers=True)
    style.letter(above, "a", f"first {min(LAYERS, len(layers))} of {found.layers} layers")
    _bars(below, found.rows, streams, found.length, numbers=False)
    style.letter(below, "b", "the whole step")
    below.set_xlabel("time since the step began (µs)")
    stages = found.rows["stage"].unique(maintain_order=True).to_list()
    patches = [*(Patch(color=COLORS.get(stage, style.OTHER)) for stage in stages), Patch(color=REST)]
    style.legend_above(figure, patches, [*stages, "linear layers and the rest"], 6)
    return figure


def _bars(at: Axes, rows: pl.DataFrame, streams: list[str], until: float, numbers: bool) -> None:
    at.barh(0, until, height=0.7, color=REST, linewidth=0)  # the main stream is never without work
    for stream, stage, layer, start, end in rows.select("stream", "stage", "layer", "start", "end").iter_rows():
        y = streams.index(stream)
        at.barh(y, end - start, left=start, height=0.7, color=COLORS.get(stage, style.OTHER), linewidth=0)
        if numbers and stage == "attention" and end - start > 0.02 * until:
            at.text((start + end) / 2, y, str(layer), ha="center", va="center", color="white", fontsize=6)
    at.set_yticks(range(len(streams)), [f"{stream} stream" for stream in streams])
    at.set_ylim(len(streams) - 0.5, -0.5)
    at.set_xlim(0, until)
    at.tick_params(axis="y", length=0)
    at.spines["left"].set_visible(False)


def caption(found: Pipeline) -> str:
    hidden = (
        f" {found.hidden:.0%} of the second stream's work is done before the last layer's attention ends."
        if found.hidden == found.hidden
        else ""
    )
    return (
        f"One measured slow step ({found.what}; {found.layers} layers, {found.length:,.0f} µs). Numbers: the layer whose attention runs.{hidden} A profiled step "
        "carries event records between its kernels and is slower than a timed one."
    )
