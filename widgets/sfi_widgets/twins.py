"""Static twins of the panels: the same arrays as matplotlib figures, for papers, for docs and where widgets don't render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from .columns import Ranking

if TYPE_CHECKING:
    from .session import Session

SINK, RECENT, SELECTED, OTHER, SLOW, BEFORE = "#a8327d", "#1467b3", "#00805e", "#70777f", "#c2410c", "#c98500"


def support_figure(session: Session) -> Figure:
    """The support map: every listed position of every step in view, coloured by why it may be read, sized by weight."""
    figure, axes = single((7.0, 3.6))
    draw_support(axes, session)
    handles = [axes.plot([], [], "s", color=c)[0] for c in (SINK, SELECTED, RECENT, OTHER)]
    names = ["sink", "selected", "recent", "not in memory"]
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return figure


def draw_support(axes: Any, session: Session) -> None:
    """The support map on given axes."""
    state, rows = session.state, session.support
    counts = np.diff(rows.rows.offsets.astype(np.int64))
    steps, ids = np.repeat(np.arange(len(counts)), counts), rows.rows.ids
    order = np.argsort(rows.weights, kind="stable")
    colours = to_rgba_array([OTHER, SELECTED, RECENT, SINK])[reasons(session)]
    colours[:, 3] = np.clip((np.log10(np.maximum(rows.weights, 1e-4)) + 4) / 4, 0.08, 1.0)
    axes.scatter(steps[order], ids[order], c=colours[order], s=1.6, linewidths=0, marker="s", rasterized=True)
    for refresh in _refreshes(session):
        axes.axvline(refresh, color=SLOW, lw=0.5, alpha=0.5)
    axes.set(xlim=state.brush, ylim=(state.span[1], state.span[0]), xlabel="decode step", ylabel="position")
    axes.set_title(f"Support, layer {state.layer}, {state.head_name}", fontsize=9, loc="left")


def reasons(session: Session) -> np.ndarray:
    """Why each listed position may be read: 0 not in memory, 1 selected, 2 recent, 3 sink; int8 [total]."""
    rows, now = session.support.rows, session.now
    found = np.zeros(len(rows.ids), np.int8)
    if now is None:
        return found
    for step in range(len(rows.offsets) - 1):
        here = slice(rows.offsets[step], rows.offsets[step + 1])
        ids = rows.ids[here]
        if len(ids):
            found[here][np.isin(ids, session.selected_at(step))] = 1
            found[here][ids >= now.recent_start[step]] = 2
            found[here][ids < now.settings.sink] = 3
    return found


def selection_figure(session: Session) -> Figure:
    """Mass kept, keys read and selected positions by step, now and as recorded."""
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    kept, keys, picked = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1, 2.4])
    draw_kept(kept, session)
    draw_kept(keys, session, "keys_read", "keys read")
    draw_selected(picked, session)
    title = f"Selection, layer {session.state.layer}, {session.state.head_name}: {session.state.settings.to_code()}"
    kept.set_title(title, fontsize=9, loc="left")
    return figure


def draw_kept(axes: Any, session: Session, name: str = "kept", label: str = "mass kept") -> None:
    """A number by step, now and as recorded, on given axes; empty where nothing can be re-selected."""
    axes.set_ylabel(label)
    if session.now is None:
        return
    axes.plot(_decoded(session, getattr(session.baseline, name)), "--", color=BEFORE, lw=1, label="as recorded")
    axes.plot(_decoded(session, getattr(session.now, name)), color=SELECTED, lw=1.2, label="current settings")
    if name == "kept":
        axes.legend(fontsize=7, frameon=False, ncols=2)


def draw_selected(axes: Any, session: Session) -> None:
    """Selected positions by step, as recorded (amber) under now (green), on given axes."""
    state = session.state
    now = session.now.ranking if session.now else session.recorded
    k = state.settings.k if session.now else session.trace.settings.k
    for ranking, count, colour in ((session.recorded, session.trace.settings.k, BEFORE), (now, k, SELECTED)):
        starts, ends, where = _segments(ranking, count, state.steps)
        axes.hlines(where, starts, ends, color=colour, lw=0.6, alpha=0.8)
    axes.set(xlim=state.brush, ylim=(state.span[1], state.span[0]), xlabel="decode step", ylabel="position")


def run_figure(session: Session, values: np.ndarray, title: str) -> Figure:
    """The run: a metric by step, slow steps as ticks."""
    figure, axes = single((7.0, 1.9))
    draw_run(axes, session, values, title)
    return figure


def draw_run(axes: Any, session: Session, values: np.ndarray, title: str) -> None:
    """The run on given axes."""
    axes.plot(values, color=RECENT, lw=1.2)
    steps, (first, end) = session.trace.steps, session.state.brush
    slow = steps.filter((steps["route"] == "slow") & steps["step"].is_between(first, end, "left"))["step"].to_numpy()
    axes.plot(slow, np.ones(len(slow)), "|", color=SLOW, transform=axes.get_xaxis_transform(), clip_on=False)
    axes.set(xlim=session.state.brush, xlabel="decode step", ylabel=title)


def heads_figure(values: np.ndarray, title: str, kinds: Sequence[str] = (), recorded: Sequence[int] = ()) -> Figure:
    """Layer × KV head."""
    figure = Figure(figsize=(7.0, 1.4 + 0.16 * values.shape[1]), layout="constrained")
    axes = figure.subplots()
    figure.colorbar(draw_heads(axes, values, kinds, recorded), ax=axes)
    note = "\nwhite dots: recorded, not re-selected" if len(recorded) else ""
    axes.set_title(f"{title}{note}", fontsize=9, loc="left")
    return figure


def draw_heads(axes: Any, values: np.ndarray, kinds: Sequence[str] = (), recorded: Sequence[int] = ()) -> Any:
    """Layer × KV head on given axes; layers with a window of their own are hatched, those of `recorded` (shown as the run
    did it, not under the current settings) carry a white dot. Returns the image."""
    axes.set_facecolor("#eef1f4")
    image = axes.imshow(values.T, aspect="auto", cmap="viridis", interpolation="nearest")
    for layer, kind in enumerate(kinds):
        if kind != "full":
            axes.axvspan(
                layer - 0.5, layer + 0.5, facecolor="#eef1f4", edgecolor="#c3cad1", hatch="////", lw=0, zorder=3
            )
    layers, heads = np.meshgrid(np.asarray(recorded, int), np.arange(values.shape[1]))
    axes.plot(layers.ravel(), heads.ravel(), "o", color="white", ms=2, alpha=0.8)
    axes.set(xlabel="layer", ylabel="KV head", yticks=range(values.shape[1]))
    return image


def single(size: tuple[float, float]) -> tuple[Figure, Any]:
    """A figure with one pair of axes."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


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
