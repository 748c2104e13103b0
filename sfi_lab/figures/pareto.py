"""Keys read against attention mass kept: settings tried on the recording, and which of them nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfi_lab.figures import style
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.reselect import bounds, reselected

TITLE = "Keys read against attention mass kept"
NEEDS = "a tuning study, or a trace recorded with '+qk'"
COMMAND = "sfi-lab study tune -o DIR"

SHARES = (0.02, 0.04, 0.08, 0.16, 0.32)  # K as shares of the mean context
T_MAX = (64, 16, 8, 4)


@dataclass(frozen=True, slots=True)
class Point:
    """One setting: keys read over keys available, mass kept, K, T_max, kind of the what-if."""

    read: float
    kept: float
    k: int
    t_max: int
    kind: str


@dataclass(frozen=True, slots=True)
class Pareto:
    points: list[Point]
    front: list[Point]
    oracle: list[tuple[float, float]]
    alone: tuple[float, float]
    recorded: Point
    n: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """From a study. Shares of keys read, mass kept: of everything tried, the front, the base, and of those run again."""

    tried: list[tuple[float, float]]
    front: list[tuple[float, float]]
    base: tuple[float, float]
    again: list[tuple[float, float]]
    what: str


def data(material: Material) -> Pareto | Tuned:
    columns = ("setting", "settings", "kept", "read", "on_front", "refreshes", "run_kept", "run_read")
    try:
        found = material.table(columns, "no tuning study is there", COMMAND)
    except Missing:
        return _from_traces(material)
    frame = found.frame.sort("read")
    pairs = lambda f, read="read", kept="kept": list(f.select(read, kept).iter_rows())  # noqa: E731
    return Tuned(
        pairs(frame), pairs(frame.filter("on_front")), pairs(frame.filter(pl.col("setting") == 0))[0],
        pairs(frame.drop_nulls("run_kept"), "run_read", "run_kept"), found.said(),
    )  # fmt: skip


def _from_traces(material: Material) -> Pareto:
    traces = material.with_queries()
    available = float(np.mean([np.mean(t.steps["keys_available"].to_numpy()[1:]) for t in traces]))
    ks = [max(1, round(share * available)) for share in SHARES]

    def point(k: int, t_max: int) -> Point:
        got = reselected(material, traces, lambda s: s.with_(k=k, t_max=t_max), fast_only=False, error=False)
        return Point(float(got.keys.mean()) / available, float(got.kept.mean()), k, t_max, got.kind)

    points = [point(k, t_max) for t_max in T_MAX for k in ks]
    s = traces[0].settings
    window = min(1.0, (s.sink + s.recent) / available)
    oracle = [(window + k / available, float(bounds(material, traces, k)[1].mean())) for k in ks]
    return Pareto(
        points, front(points), oracle, (window, float(bounds(material, traces)[0].mean())), point(s.k, s.t_max),
        sum(len(t.decode_steps) for t in traces),
    )  # fmt: skip


def front(points: Sequence[Point]) -> list[Point]:
    """Points that no other beats: as few keys and more mass, or fewer keys and as much mass. By keys read."""
    best: list[Point] = []
    for p in sorted(points, key=lambda p: (p.read, -p.kept)):
        if not best or p.kept > best[-1].kept:
            best.append(p)
    return best


def draw(found: Pareto | Tuned) -> Figure:
    figure = style.new(style.COLUMN, 2.6)
    at = figure.subplots()
    (_draw_tuned if isinstance(found, Tuned) else _draw_traces)(at, found)
    at.set_xlabel("keys read / keys available")
    at.set_ylabel("attention mass kept")
    at.grid()
    at.legend(loc="lower right")
    return figure


def _draw_tuned(at: Axes, found: Tuned) -> None:
    at.plot(
        *zip(*found.tried, strict=True),
        "o",
        color=style.OTHER,
        markersize=1.6,
        alpha=0.6,
        mew=0,
        label=f"tried ({len(found.tried)}, proxy)",
    )
    at.plot(
        *zip(*found.front, strict=True),
        "-s",
        color=style.RECENT,
        markersize=2.6,
        linewidth=0.8,
        label="Pareto front (proxy)",
    )
    at.plot(*zip(*found.again, strict=True), "D", mfc="none", mec=style.SLOW, markersize=5, label="run again")
    at.plot(*found.base, "*", color=style.INK, markersize=7, label="base")


def _draw_traces(at: Axes, found: Pareto) -> None:
    at.plot(
        *zip(*found.oracle, strict=True), color=style.FAINT, linestyle=style.DASHES[2], label="oracle Top-K, every step"
    )
    at.plot(
        [p.read for p in found.front],
        [p.kept for p in found.front],
        color=style.INK,
        linewidth=0.8,
        label="Pareto front",
        zorder=1,
    )
    for t_max, color, marker in zip(T_MAX, style.SERIES, style.MARKERS, strict=False):
        mine = [p for p in found.points if p.t_max == t_max]
        at.plot([p.read for p in mine], [p.kept for p in mine], marker, color=color, label=f"T_max {t_max}")
    at.plot(*found.alone, "x", color=style.INK, label="sink and recent alone")
    at.plot(
        [found.recorded.read], [found.recorded.kept], "o", mfc="none", mec=style.SLOW, markersize=7, label="as recorded"
    )


def caption(found: Pareto | Tuned) -> str:
    if isinstance(found, Tuned):
        return (
            f"{len(found.tried)} settings tried on recorded dense runs (proxy), {len(found.again)} of them run again teacher-forced on the "
            f"same tokens; {found.what}. All decode steps counted."
        )
    ks = sorted({p.k for p in found.points})
    return (
        f"K of {', '.join(map(str, ks))} and four caps T_max, tried on the recording ({found.n} decode steps, all counted; mean over the "
        "layers with queries). Points whose refresh steps differ from the recording's are proxies: the trajectory is that of the "
        "recorded settings. The oracle picks its K anew at every step, for which it would have to read everything."
    )
