"""One refresh of one head, stage by stage: evidence and prior over the document, scores before and after suppression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfi_lab.analysis.anatomy import stages
from sfi_lab.figures import style
from sfi_lab.figures.material import Material

TITLE = "One refresh, stage by stage"
NEEDS = "a trace recorded with '+qk'"

ZOOM = 150  # candidates in the lower panel


@dataclass(frozen=True, slots=True)
class Anatomy:
    """frame: analysis.stages of the chosen head; zoom: first and last position of the lower panel."""

    frame: pl.DataFrame
    zoom: tuple[int, int]
    step: int
    layer: int
    head: int
    reason: str
    settings: str


def data(material: Material) -> Anatomy:
    trace = material.with_queries()[0]
    refreshes = trace.steps.filter(pl.col("refreshed")).select("step", "reason").rows()
    step, reason = refreshes[len(refreshes) // 2]
    layer = trace.qk_layers[len(trace.qk_layers) // 2]
    frame = stages(material.replay(trace, layer), step, heads=[0])
    return Anatomy(frame, _busiest(frame), step, layer, 0, reason, trace.settings.to_code())


def _busiest(frame: pl.DataFrame) -> tuple[int, int]:
    """The stretch of ZOOM candidates that holds most of the positions that suppression moved."""
    moved = (frame["rank"].is_not_null() != frame["rank_before_nms"].is_not_null()).to_numpy().astype(int)
    if len(moved) <= ZOOM:
        return frame["position"][0], frame["position"][-1]
    counts = np.convolve(moved, np.ones(ZOOM, int), "valid")
    first = int(counts.argmax())
    return frame["position"][first], frame["position"][first + ZOOM - 1]


def draw(found: Anatomy) -> Figure:
    figure = style.new(style.PAGE, 3.2)
    above, below = figure.subplots(2, 1, height_ratios=(1, 1.25))
    _document(above, found)
    _scores(below, found.frame.filter(pl.col("position").is_between(*found.zoom)))
    return figure


def _document(at: Axes, found: Anatomy) -> None:
    f = found.frame
    at.vlines(f["position"], 1e-6, f["evidence"], color=style.FAINT, linewidth=0.4)
    kept = f.filter(pl.col("rank").is_not_null())
    at.plot(
        kept["position"],
        kept["evidence"],
        "o",
        color=style.SELECTED,
        markersize=2.2,
        mew=0,
        label="evidence f of the selected",
    )
    at.plot(f["position"], f["prior"], color=style.ACROSS, linewidth=0.9, label="prior r")
    at.axvspan(*found.zoom, color=style.BAND, zorder=0, linewidth=0)
    at.set_yscale("log")
    at.set_ylim(1e-6, 2 * f["evidence"].max())
    at.set_ylabel("share")
    at.set_xlim(f["position"][0] - 2, f["position"][-1] + 2)
    at.legend(loc="upper left", ncols=2)
    style.letter(at, "a", "evidence and prior over the candidates; grey: panel b")


def _scores(at: Axes, f: pl.DataFrame) -> None:
    at.plot(f["position"], f["log_score"], color=style.FAINT, linewidth=0.8, label="log score z")
    at.plot(
        f["position"],
        f["suppressed"],
        color=style.RECENT,
        linewidth=0.9,
        linestyle=style.DASHES[1],
        label="after soft-NMS",
    )
    at.plot(
        f["position"],
        f["exclusive"],
        color=style.SINK,
        linewidth=0.8,
        linestyle=style.DASHES[2],
        label="after exclusivity",
    )
    now, before = pl.col("rank").is_not_null(), pl.col("rank_before_nms").is_not_null()
    for chosen, marker, face, color, label in (
        (now & before, "o", style.SELECTED, style.SELECTED, "selected"),
        (now & ~before, "^", style.ACROSS, style.ACROSS, "moved in"),
        (before & ~now, "o", "white", style.SLOW, "moved out"),
    ):
        part = f.filter(chosen)
        at.plot(
            part["position"],
            part["log_score"],
            marker,
            mfc=face,
            mec=color,
            color=color,
            markersize=3.4,
            linestyle="none",
            label=label,
        )
    at.set_xlabel("cached position")
    at.set_ylabel("log score")
    low, high = at.get_ylim()
    at.set_ylim(low, high + 0.25 * (high - low))
    at.margins(x=0.01)
    at.legend(loc="upper center", ncols=6, columnspacing=1.2)
    style.letter(at, "b", "what suppression and exclusivity move")


def caption(found: Anatomy) -> str:
    f = found.frame
    out = f.filter(pl.col("rank").is_null() & pl.col("rank_before_nms").is_not_null()).height
    return (
        f"The refresh at step {found.step} ({found.reason.replace('_', ' ')}), layer {found.layer}, KV head {found.head}: {f.height} candidates, "
        f"{f['rank'].count()} selected, {out} of them other than plain scores would have selected. {found.settings}."
    )
