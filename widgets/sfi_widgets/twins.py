"""Static twins of the panels: the same arrays as matplotlib figures, for papers, for docs and where widgets don't render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from .columns import Ranking

if TYPE_CHECKING:
    from .session import Session

SINK, RECENT, SELECTED, OTHER, SLOW, BEFORE = "#a8327d", "#1467b3", "#00805e", "#70777f", "#c2410c", "#c98500"


def support_figure(session: Session) -> Figure:
    """The support map: every listed position of every step in view, coloured by why it may be read, sized by weight."""
    figure, axes = _axes(session, (7.0, 3.6))
    state, rows = session.state, session.support
    counts = np.diff(rows.rows.offsets.astype(np.int64))
    steps, ids = np.repeat(np.arange(len(counts)), counts), rows.rows.ids
    colours = np.full(len(ids), OTHER, dtype=object)
    if session.now is not None:
        now = session.now
        for step in np.unique(steps):
            mine = steps == step
            colours[mine & np.isin(ids, session.selected_at(int(step)))] = SELECTED
            colours[mine & (ids >= now.recent_start[step])] = RECENT
            colours[mine & (ids < now.settings.sink)] = SINK
    order = np.argsort(rows.weights, kind="stable")
    alpha = np.clip((np.log10(np.maximum(rows.weights, 1e-4)) + 4) / 4, 0.08, 1.0)
    axes.scatter(
        steps[order],
        ids[order],
        c=list(colours[order]),
        s=1.6,
        alpha=alpha[order],
        linewidths=0,
        marker="s",
        rasterized=True,
    )
    for refresh in _refreshes(session):
        axes.axvline(refresh, color=SLOW, lw=0.5, alpha=0.5)
    axes.set(xlim=state.brush, ylim=(state.span[1], state.span[0]), xlabel="decode step", ylabel="position")
    axes.set_title(f"Support, layer {state.layer}, {_head(session)}", fontsize=9, loc="left")
    handles = [axes.plot([], [], "s", color=c)[0] for c in (SINK, SELECTED, RECENT, OTHER)]
    figure.legend(
        handles,
        ["sink", "selected", "recent", "not in memory"],
        loc="outside lower center",
        ncols=4,
        fontsize=7,
        frameon=False,
    )
    return figure


def selection_figure(session: Session) -> Figure:
    """Mass kept, keys read and selected positions by step, now and as recorded."""
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    kept, keys, picked = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1, 2.4])
    if session.now is not None:
        for axes, name in ((kept, "kept"), (keys, "keys_read")):
            axes.plot(_decoded(session, getattr(session.baseline, name)), "--", color=BEFORE, lw=1, label="as recorded")
            axes.plot(_decoded(session, getattr(session.now, name)), color=SELECTED, lw=1.2, label="current settings")
        kept.legend(fontsize=7, frameon=False, ncols=2)
    now = session.now.ranking if session.now else session.recorded
    k = session.state.settings.k if session.now else session.trace.settings.k
    for ranking, count, colour, shift in (
        (session.recorded, session.trace.settings.k, BEFORE, 0.0),
        (now, k, SELECTED, 0.0),
    ):
        starts, ends, where = _segments(ranking, count, session.state.steps)
        picked.hlines(where + shift, starts, ends, color=colour, lw=0.6, alpha=0.8)
    kept.set_ylabel("mass kept")
    keys.set_ylabel("keys read")
    picked.set(
        xlim=session.state.brush,
        ylim=(session.state.span[1], session.state.span[0]),
        xlabel="decode step",
        ylabel="position",
    )
    kept.set_title(
        f"Selection, layer {session.state.layer}, {_head(session)}: {session.state.settings.to_code()}",
        fontsize=9,
        loc="left",
    )
    return figure


def run_figure(session: Session, values: np.ndarray, title: str) -> Figure:
    """The run: a metric by step, slow steps as ticks."""
    figure, axes = _axes(session, (7.0, 1.9))
    axes.plot(values, color=RECENT, lw=1.2)
    slow = session.trace.steps.filter(session.trace.steps["route"] == "slow")["step"].to_numpy()
    axes.plot(slow, np.ones(len(slow)), "|", color=SLOW, transform=axes.get_xaxis_transform(), clip_on=False)
    axes.set(xlim=session.state.brush, xlabel="decode step", ylabel=title)
    return figure


def heads_figure(values: np.ndarray, title: str) -> Figure:
    """Layer × KV head."""
    figure = Figure(figsize=(7.0, 1.2 + 0.16 * values.shape[1]), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values.T, aspect="auto", cmap="viridis", interpolation="nearest")
    axes.set(xlabel="layer", ylabel="KV head", yticks=range(values.shape[1]))
    figure.colorbar(image, ax=axes, label=title)
    return figure


def _axes(session: Session, size: tuple[float, float]) -> tuple[Figure, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _head(session: Session) -> str:
    return session.state.head_name


def _refreshes(session: Session) -> np.ndarray:
    return session.now.ranking.steps if session.now else session.recorded.steps


def _decoded(session: Session, values: np.ndarray) -> np.ndarray:
    shown = np.full(session.state.steps, np.nan)
    shown[session.trace.decode_steps] = values[session.trace.decode_steps]
    return shown


def _segments(ranking: Ranking, k: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return segments(ranking.steps, [ranking.at(r, k) for r in range(len(ranking.steps))], steps)


def segments(starts: np.ndarray, positions: list[np.ndarray], steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and position of every stretch of steps in which a position is in a set; the sets change at `starts`."""
    ends = np.append(starts[1:], steps)
    found = [
        (np.full(len(at), start), np.full(len(at), end), at)
        for start, end, at in zip(starts, ends, positions, strict=True)
    ]
    if not found:
        return (np.empty(0),) * 3
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))
