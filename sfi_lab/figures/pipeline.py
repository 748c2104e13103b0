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

LAYERS = 6  # shown: the first ones after the start-up
COLORS = {"attention": style.INK, "selector": style.SELECTED, "evidence": "#5fb2f0", "prior": "#0b3c6f", "fusion": "#9fd8c5", "nms": style.SINK,
          "exclusivity": "#d9a3c6", "topk": style.ACROSS, "pack": style.SLOW, "linear": "#c9ced4", "model": "#c9ced4"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pipeline:
    """rows: stream, stage, layer, start_us, end_us of one step, counted from its start; hidden: share of the second stream's time
    that ran beside the first."""

    rows: pl.DataFrame
    layers: int
    hidden: float
    what: str


def data(material: Material) -> Pipeline:
    frame = material.rows(TIMELINE, "no timeline of a profiled run is there", TIMELINE_COMMAND)
    if "route" in frame.columns:
        frame = frame.filter(pl.col("route") == "slow") if (frame["route"] == "slow").any() else frame
    if "step" in frame.columns:
        frame = frame.filter(pl.col("step") == frame["step"].min())
    rows = frame.with_columns(pl.col("start_us", "end_us") - frame["start_us"].min()).sort("start_us")
    return Pipeline(rows, rows["layer"].n_unique(), hidden_share(rows), str(frame["source"][0]))


def hidden_share(rows: pl.DataFrame) -> float:
    """Time of the second stream (the one with less work of attention) during which the first one worked too, over its whole time."""
    main = _main_stream(rows)
    busy = [
        (s, e)
        for s, e in rows.filter(pl.col("stream") == main).select("start_us", "end_us").sort("start_us").iter_rows()
    ]
    side = list(rows.filter(pl.col("stream") != main).select("start_us", "end_us").iter_rows())
    total = sum(e - s for s, e in side)
    shared = sum(max(0.0, min(e, b) - max(s, a)) for s, e in side for a, b in busy)
    return shared / total if total else 0.0


def _main_stream(rows: pl.DataFrame) -> str:
    work = (
        rows.filter(pl.col("stage") == "attention")
        .group_by("stream")
        .agg((pl.col("end_us") - pl.col("start_us")).sum().alias("us"))
    )
    return (
        work.sort("us", "stream", descending=[True, False])["stream"][0]
        if work.height
        else rows["stream"].unique().sort()[0]
    )


def draw(found: Pipeline) -> Figure:
    figure = style.new(style.PAGE, 2.3)
    above, below = figure.subplots(2, 1, height_ratios=(1.2, 1))
    layers = found.rows["layer"].unique().sort().to_list()
    first = layers[: min(LAYERS, len(layers))]
    part = found.rows.filter(pl.col("layer").is_in(first))
    _bars(above, part, numbers=True)
    style.letter(above, "a", f"first {len(first)} of {found.layers} layers")
    _bars(below, found.rows, numbers=False)
    style.letter(below, "b", "the whole step")
    below.set_xlabel("time since the step began (µs)")
    stages = found.rows["stage"].unique(maintain_order=True).to_list()
    style.legend_above(figure, [Patch(color=COLORS.get(stage, style.OTHER)) for stage in stages], stages, 8)
    return figure


def _bars(at: Axes, rows: pl.DataFrame, numbers: bool) -> None:
    main = _main_stream(rows)
    streams = [main, *sorted(s for s in rows["stream"].unique().to_list() if s != main)]
    width = rows["end_us"].max() - rows["start_us"].min()
    for stream, stage, layer, start, end in rows.select("stream", "stage", "layer", "start_us", "end_us").iter_rows():
        y = streams.index(stream)
        at.barh(
            y,
            end - start,
            left=start,
            height=0.7,
            color=COLORS.get(stage, style.OTHER),
            linewidth=0.3,
            edgecolor="white",
        )
        if numbers and stage == "attention" and (end - start) > 0.02 * width:
            at.text((start + end) / 2, y, str(layer), ha="center", va="center", color="white", fontsize=6)
    at.set_yticks(range(len(streams)), [f"stream {s}" if str(s).isdigit() else str(s) for s in streams])
    at.set_ylim(len(streams) - 0.5, -0.5)
    at.grid(axis="x")
    at.tick_params(axis="y", length=0)
    at.spines["left"].set_visible(False)


def caption(found: Pipeline) -> str:
    length = found.rows["end_us"].max() - found.rows["start_us"].min()
    return (
        f"One measured slow step ({found.what}; {found.layers} layers, {length:,.0f} µs). Numbers: the layer whose attention runs. {found.hidden:.0%} of the "
        "second stream's time runs beside the first. Profiled steps carry event records and are slower than timed ones."
    )
