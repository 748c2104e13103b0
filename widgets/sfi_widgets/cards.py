"""Static twins of panels that are words: the settings as a table, the whole workbench as one figure, facts as a card."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from sfi_lab.settings import FIELDS

from .twins import BEFORE, OTHER, RECENT, SELECTED, SINK, draw_heads, draw_kept, draw_run, reasons

if TYPE_CHECKING:
    from .controls import Controls
    from .session import Session
    from .workbench import Workbench

_SMALL, _LINE = 8, 0.16  # points, inches


def card_figure(title: str, facts: str) -> Figure:
    """A title and a sentence or two, for a panel that has nothing to draw."""
    lines = textwrap.wrap(facts, 96) or [""]
    figure = Figure(figsize=(7.0, 0.45 + _LINE * len(lines)))
    top = figure.get_figheight()
    _write(figure, 0.02, 1 - 0.22 / top, title, weight="bold", size=9)
    for i, line in enumerate(lines):
        _write(figure, 0.02, 1 - (0.42 + _LINE * i) / top, line)
    return figure


def settings_figure(panel: Controls) -> Figure:
    """Every knob with its symbol and value, two columns; green where it is not the recording's."""
    now, before = panel.state.settings.to_dict(), panel.session.trace.settings.to_dict()
    names = [item["name"] for group in panel.spec["groups"] for item in group["items"]]
    names[1:1] = ["lam_clip"]  # stands inside λ's own control
    code = textwrap.wrap(panel.code, 96)
    half = (len(names) + 1) // 2
    height = 0.5 + _LINE * (half + len(code))
    figure = Figure(figsize=(7.0, height))
    _write(figure, 0.02, 1 - 0.22 / height, "Settings", weight="bold", size=9)
    for i, line in enumerate(code):
        _write(figure, 0.02, 1 - (0.42 + _LINE * i) / height, line, family="DejaVu Sans Mono")
    for i, name in enumerate(names):
        x, y = 0.02 + 0.5 * (i // half), 1 - (0.5 + _LINE * (len(code) + i % half)) / height
        changed = now[name] != before[name]
        value = " / ".join(map(str, now[name])) if isinstance(now[name], (list, tuple)) else str(now[name])
        _write(figure, x, y, FIELDS[name].symbol, color=OTHER)
        _write(
            figure, x + 0.16, y, value, color=SELECTED if changed else "black", weight="bold" if changed else "normal"
        )
    return figure


def workbench_figure(bench: Workbench) -> Figure:
    """The heads, the run, the support map, the mass kept and the selected positions, under one another.

    A cell waits for it, so the maps are images and ticks are few; the panels' own figures are drawn for print.
    """
    session, state = bench.session, bench.state
    figure = Figure(figsize=(8.0, 7.4))
    grid = figure.add_gridspec(5, 1, height_ratios=[0.8, 1.0, 2.6, 1.0, 2.0], left=0.09, right=0.985, top=0.93, bottom=0.06, hspace=0.42)  # fmt: skip
    heads, run, support, kept, picked = (figure.add_subplot(cell) for cell in grid)
    _write(figure, 0.012, 0.985, repr(bench), size=7.5, va="top")
    chosen = bench.heads.chosen if bench.heads.metrics else {"title": "nothing recorded"}
    if bench.heads.metrics:
        values = bench.heads.values()
        draw_heads(heads, values, bench.heads.layer_kinds, chosen.get("recorded", ()))
        low, high = (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else (np.nan, np.nan)
        chosen = {"title": f"{chosen['title']}, {low:.3g} (dark) to {high:.3g} (bright)"}
    if bench.run.metrics:
        draw_run(run, session, bench.run.values(), bench.run.metric.replace("_", " "))
    run.axvline(state.cursor, color="black", lw=0.8)
    _map(support, session, *_support_pixels(session))
    draw_kept(kept, session)
    kept.set_xlim(state.brush)
    _map(picked, session, *_selected_pixels(session))
    kind = session.now.kind if session.now else "recording"
    where = f"layer {state.layer}, {state.head_name}"
    titles = (
        f"Heads by layer: {chosen['title']}", f"Run: {bench.run.metric.replace('_', ' ')}; ticks are slow steps", f"Support, {where}: sink, selected (green), recent (blue)",
        f"Mass kept ({kind})", "Selected positions: green now, amber only as recorded",
    )  # fmt: skip
    for axes, title in zip((heads, run, support, kept, picked), titles, strict=True):
        axes.set_title(title, fontsize=8, loc="left", pad=8 if axes is run else 4)
        axes.set(xlabel="", ylabel="")
        axes.tick_params(labelsize=7, length=2)
        axes.locator_params(axis="y", nbins=3)
        axes.locator_params(axis="x", nbins=8)
        if axes in (run, support, kept):
            axes.tick_params(labelbottom=False)
        if axes is not heads:
            axes.spines[["top", "right"]].set_visible(False)
    picked.set_xlabel("decode step", fontsize=8)
    return figure


def _support_pixels(session: Session) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Steps, positions, why each is read (0 not in memory, 1 selected, 2 recent, 3 sink), strength in (0, 1]."""
    rows = session.support.rows
    counts = np.diff(rows.offsets.astype(np.int64))
    strength = np.clip((np.log10(np.maximum(session.support.weights, 1e-4)) + 4) / 4, 0.15, 1.0)
    return np.repeat(np.arange(len(counts)), counts), rows.ids, reasons(session), strength


def _selected_pixels(session: Session) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The same of what is selected: 1 now, 4 only as recorded."""
    steps = session.state.steps
    k = session.state.settings.k if session.now else session.trace.settings.k
    found = []
    for ranking, count, why in (
        (session.recorded, session.trace.settings.k, 4),
        (session.now.ranking if session.now else session.recorded, k, 1),
    ):
        for i, (first, end) in enumerate(pairwise([*ranking.steps.tolist(), steps])):
            at = ranking.at(i, count)
            found.append((np.repeat(np.arange(first, end), len(at)), np.tile(at, end - first), why))
    if not found:
        return (np.empty(0, int),) * 4
    when, where = (np.concatenate(part) for part in list(zip(*found, strict=True))[:2])
    return when, where, np.repeat([f[2] for f in found], [len(f[0]) for f in found]), np.ones(len(when))


def _map(axes: Any, session: Session, steps: np.ndarray, positions: np.ndarray, why: np.ndarray, strength: np.ndarray) -> None:  # fmt: skip
    """Steps × positions of the ranges in view as one image; where several share a pixel the strongest, then the last wins."""
    (s0, s1), (p0, p1) = session.state.brush, session.state.span
    columns, rows = min(s1 - s0, 700), min(p1 - p0, 240)
    inside = (steps >= s0) & (steps < s1) & (positions >= p0) & (positions < p1)
    order = np.flatnonzero(inside)[np.argsort(strength[inside], kind="stable")]
    x = (steps[order] - s0) * columns // (s1 - s0)
    y = (positions[order] - p0) * rows // (p1 - p0)
    image = np.zeros((rows, columns, 4))
    image[y, x, :3] = to_rgba_array([OTHER, SELECTED, RECENT, SINK, BEFORE])[why[order], :3]
    image[y, x, 3] = strength[order]
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(s0, s1, p1, p0))
    axes.set_ylabel("position")


def _write(figure: Figure, x: float, y: float, text: str, size: float = _SMALL, **style: Any) -> None:
    figure.text(x, y, text, fontsize=size, parse_math=False, **style)
