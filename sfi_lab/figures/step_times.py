"""How long slow and fast steps take, and where the time goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from sfi_lab.analysis.timing import PARTS, slow_share, step_times, timing
from sfi_lab.figures import style
from sfi_lab.figures.material import RECORD, Material

TITLE = "Step times of slow and fast steps, by stage"
NEEDS = "a trace of a sparse run"

ROUTES = {"fast": (style.FAST, "-", "o"), "slow": (style.SLOW, (0, (4, 1.5)), "s")}
STAGES = {"model": "#c9ced4", "attention": style.INK, "evidence": "#5fb2f0", "prior": "#0b3c6f", "fusion": "#9fd8c5", "nms": style.SINK,
          "exclusivity": "#d9a3c6", "topk": style.ACROSS, "pack": style.SLOW, "sample": "#8a8f96"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Times:
    """totals: milliseconds of each step by route; parts: the route's mean by stage; table: analysis.timing's."""

    totals: dict[str, np.ndarray]
    parts: dict[str, dict[str, float]]
    table: pl.DataFrame
    share: dict
    what: str


def data(material: Material) -> Times:
    sparse = lambda t: bool((t.steps["route"] == "fast").any()) and bool((t.steps["route"] == "slow").any())  # noqa: E731
    (trace, *_) = material.traces_with(sparse, "no trace with slow and fast steps is there", RECORD)
    times, table = step_times(trace), timing(trace)
    totals = {route: np.sort(times.filter(pl.col("route") == route)["total"].to_numpy()) for route in ROUTES}
    means = table.filter(pl.col("stage").is_in(PARTS))
    parts = {
        route: dict(means.filter(pl.col("route") == route).select("stage", "mean").iter_rows()) for route in ROUTES
    }
    model = trace.meta["model"]
    context = times["keys_available"]
    what = f"{model['name']} in {model['dtype']} on {model['device']}, {context.min():,} to {context.max():,} cached positions"
    return Times(totals, parts, table, slow_share(trace), what)


def draw(found: Times) -> Figure:
    figure = style.new(style.PAGE, 1.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    for route, (color, dash, marker) in ROUTES.items():
        values = found.totals[route]
        left.step(
            values,
            np.arange(1, len(values) + 1) / len(values),
            where="post",
            color=color,
            linestyle=dash,
            label=f"{route} ({len(values)} steps)",
        )
        for share in (0.5, 0.95, 0.99):
            if len(values) * (1 - share) < 1:
                continue  # too few steps for this percentile
            left.plot([np.percentile(values, 100 * share)], [share], marker, color=color, markersize=3)
    left.set_xlim(0)
    left.set_ylim(0, 1.03)
    left.set_xlabel("time of a step (ms)")
    left.set_ylabel("share of steps")
    left.grid()
    left.legend(loc="center left")
    style.letter(left, "a", "distribution; marks: p50, p95, p99")
    for place, route in enumerate(ROUTES):
        start = 0.0
        for stage, color in STAGES.items():
            width = found.parts[route].get(stage, 0.0)
            right.barh(
                place,
                width,
                left=start,
                height=0.6,
                color=color,
                linewidth=0.3,
                edgecolor="white",
                label=stage if place == 0 else None,
            )
            start += width
        right.text(start, place, f" {start:.1f} ms", va="center")
    right.set_yticks(range(len(ROUTES)), list(ROUTES))
    right.set_ylim(2.35, -0.6)  # room for the legend below the bars
    right.set_xlim(0, 1.16 * max(sum(parts.values()) for parts in found.parts.values()))
    right.set_xlabel("mean time by stage (ms)")
    right.spines["left"].set_visible(False)
    right.tick_params(axis="y", length=0)
    right.legend(loc="lower left", ncols=5, columnspacing=1, handlelength=1)
    style.letter(right, "b", "where the time goes")
    return figure


def caption(found: Times) -> str:
    s = found.share
    return (
        f"{s['slow_steps']} slow and {s['fast_steps']} fast steps of one recorded run ({found.what}): slow steps are {s['share_of_steps']:.1%} of the steps and "
        f"{s['share_of_time']:.1%} of the time. Recording is left out; the stage clocks' own cost is in. Uninstrumented speed is the benchmarks' matter."
    )
