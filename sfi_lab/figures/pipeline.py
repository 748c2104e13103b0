"""The measured two-stream pipeline of a slow step (the paper's figure 3): what ran when, on which stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sfi_lab.figures import style
from sfi_lab.figures.bench_rows import TIMELINE, TIMELINE_COMMAND, short
from sfi_lab.figures.material import Found, Material

TITLE = "The measured pipeline of a slow step"
NEEDS = "the timeline of a profiled run"

LAYERS = 6  # shown large: the first ones
REST = "#d3d8dd"
COLORS = {"attention": style.INK, "selector": style.SELECTED, "topk": style.ACROSS, "pack": style.SLOW}


@dataclass(frozen=True, slots=True)
class Step:
    """One profiled step. rows: stream, stage, layer, start, end (µs since it began); length: of the step; hidden: share of the
    second stream's work done before the last layer's attention had ended, nan with one stream."""

    rows: pl.DataFrame
    length: float
    hidden: float
    name: str

    @property
    def layers(self) -> int:
        return self.rows["layer"].n_unique()


def data(material: Material) -> list[Step]:
    tables = material.tables(TIMELINE, "no timeline of a profiled run is there", TIMELINE_COMMAND)
    steps = [(step, table.path) for table in tables for step in _steps(table)]
    # with overlap first, where both were profiled; then the longest
    best = sorted(steps, key=lambda s: (-s[0].rows["stream"].n_unique(), -s[0].length))[:2]
    material.use([path for _, path in best])
    return [step for step, _ in best]


def _steps(table: Found) -> list[Step]:
    """A table may hold several profiled steps, told apart by what was run."""
    keys = [name for name in ("config", "batch", "context", "kind") if name in table.frame.columns]
    frames = table.frame.partition_by(keys, maintain_order=True) if keys else [table.frame]
    return [_step(frame, table.path) for frame in frames]


def _step(frame: pl.DataFrame, path: Path) -> Step:
    rows = frame.select(
        "stream",
        "stage",
        "layer",
        *((pl.col(f"{edge}_ms") * 1e3).cast(pl.Float64).alias(edge) for edge in ("start", "end")),
    )
    whole, work = rows.filter(pl.col("stage") == "step"), rows.filter(pl.col("stage") != "step").sort("start")
    length = float(whole["end"][0] if whole.height else work["end"].max())
    if {"config", "batch", "context"} <= set(frame.columns):
        name = f"{frame['config'][0]}, batch {frame['batch'][0]}, {short(frame['context'][0])}"
    else:
        name = (path.parent.parent if path.parent.name == "timeline" else path).stem
    return Step(work, length, hidden_share(work), name)


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


def draw(found: list[Step]) -> Figure:
    streams = ["main", *sorted({stream for step in found for stream in step.rows["stream"]} - {"main"})]
    panels = [(step, True) for step in found] + [(found[0], False)]
    figure = style.new(style.PAGE, 0.5 + 0.75 * len(panels))
    axes = figure.subplots(len(panels), 1)
    for mark, at, (step, large) in zip("abc", axes, panels, strict=False):
        first = step.rows["layer"].unique().sort().to_list()[:LAYERS]
        rows = step.rows.filter(pl.col("layer").is_in(first)) if large else step.rows
        _bars(at, rows, streams, rows["end"].max() if large else step.length, numbers=large)
        style.letter(
            at,
            mark,
            f"{step.name}: " + (f"first {len(first)} of {step.layers} layers" if large else "the whole step of a"),
        )
    axes[-1].set_xlabel("time since the step began (µs)")
    stages = found[0].rows["stage"].unique(maintain_order=True).to_list()
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


def caption(found: list[Step]) -> str:
    said = "; ".join(
        f"{step.name}: {step.layers} layers, {step.length:,.0f} µs"
        + (
            f", {step.hidden:.0%} of the second stream's work done before the last layer's attention ends"
            if step.hidden == step.hidden
            else ""
        )
        for step in found
    )
    return (
        f"Measured slow steps ({said}). Numbers: the layer whose attention runs. Profiled steps carry event records between their kernels "
        "and are slower than timed ones."
    )
