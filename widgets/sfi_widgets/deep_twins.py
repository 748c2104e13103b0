"""Static twins of the panels that look deeper: text, anatomy, stability, timing, compare - the panels' own arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sfi_lab.errors import SfiError

from .twins import BEFORE, OTHER, RECENT, SELECTED, SINK, SLOW, segments, single

if TYPE_CHECKING:
    from .compare import Compare
    from .selector_anatomy import SelectorAnatomy
    from .slow_step_timing import SlowStepTiming
    from .stability_panel import StabilityPanel
    from .text_view import TextView

HUES = (OTHER, RECENT, SELECTED, BEFORE, SLOW, SINK)  # of the timing groups, as in the panel
STAGE_HUES = {"attention": RECENT, "selector": SELECTED, "topk": BEFORE, "pack": SINK}
SOURCES = {  # of the supports that stability is measured on, as in the panel
    "dense": "steps that were all dense",
    "true": "the audit's dense attention",
    "qk": "recorded queries and keys",
    "read": "what fast steps read",
}
_COLUMNS, _AROUND = 106, 400  # characters a line, tokens shown before the cursor's token
# points, a character's width in font sizes (DejaVu Sans Mono), inches a line; five whole pixels a character at 80 dpi,
# since hinted glyphs take whole pixels
_FONT, _ADVANCE, _LINE = 7.475, 0.602, 0.145


def text_figure(panel: TextView) -> Figure:
    """The text before the cursor's token, what the heads keep tinted by its recorded attention, slow steps underlined."""
    session, state = panel.session, panel.state
    texts, steps = session.trace.tokens["text"].to_list(), session.trace.steps
    last = int(steps["position"][state.cursor]) + 1
    first = max(0, last - _AROUND)
    kept, support = set(panel.kept()), session.support
    row = slice(support.rows.offsets[state.cursor], support.rows.offsets[state.cursor + 1])
    weight = dict(zip(support.rows.ids[row].tolist(), support.weights[row].tolist(), strict=True))
    slow = set((steps.filter(steps["route"] == "slow")["position"] + 1).to_list())
    lines = _lines(texts[first : last + 1])
    height = 0.5 + _LINE * len(lines)
    figure = Figure(figsize=(7.0, height))
    # a fixed-width font whose line is as wide as the axes: boxes then lie under their words
    axes = figure.add_axes((0.02, 0.1 / height, _COLUMNS * _FONT * _ADVANCE / (7.0 * 72), _LINE * len(lines) / height))
    axes.set(xlim=(0, _COLUMNS), ylim=(len(lines), 0))
    axes.set_axis_off()
    for y, line in enumerate(lines):
        plain = []  # words between dressed ones are written in one go: a text object a word would take a second
        for x, i, word in [*line, (0, -1, "")]:
            position = first + i
            dressed = i < 0 or position in kept or position == last or position in slow
            if dressed and plain:
                _write(axes, plain[0][0], y, "".join(w for _, w in plain))
                plain = []
            if position in kept:
                strength = np.clip((np.log10(max(weight.get(position, 0.0), 1e-4)) + 4) / 4, 0.15, 0.7)
                axes.add_patch(_box(x, y, len(word), SELECTED, strength))
            if position == last:
                axes.add_patch(_box(x, y, len(word), BEFORE, 0.6))
            if position in slow:
                axes.plot([x, x + len(word)], [y + 0.95] * 2, color=SLOW, lw=1.2)
            if not dressed:
                plain.append((x, word))
            elif word:
                _write(axes, x, y, word)
    axes.set_title(f"{panel.shows()}, layer {state.layer}, {state.head_name}", fontsize=8, loc="left")
    return figure


def anatomy_figure(panel: SelectorAnatomy) -> Figure:
    """Evidence, prior and fused shares, the three scores, and who was selected before and after soft-NMS and exclusivity."""
    stage = panel.stage
    if not stage:
        raise SfiError(f"nothing to draw: {panel.error}")
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    shares, scores, strips = figure.subplots(3, 1, sharex=True, height_ratios=[2, 2, 1.2])
    x = stage["first"] + np.arange(stage["candidates"])
    for name, colour in (("evidence", RECENT), ("prior", BEFORE), ("fused", SELECTED)):
        shares.plot(x, _curve(stage[name]), color=colour, lw=0.8, label=name)
    for name, colour, title in (("log_score", OTHER, "z"), ("suppressed", BEFORE, "after soft-NMS"), ("exclusive", SELECTED, "after exclusivity")):  # fmt: skip
        scores.plot(x, _curve(stage[name]), color=colour, lw=0.8, label=title)
    flags = np.frombuffer(stage["flags"], np.uint8)
    for y, (bit, colour) in enumerate(((1, OTHER), (2, BEFORE), (4, SELECTED))):
        at = x[flags & bit > 0]
        strips.vlines(at, y - 0.4, y + 0.4, color=colour, lw=0.7)
    labels = [
        f"{name}: coverage {c:.2f}, duplication {d:.2f}"
        for name, c, d in zip(
            ("by z", "after soft-NMS", "selected"), stage["coverage"], stage["duplication"], strict=True
        )
    ]
    strips.set(yticks=range(3), ylim=(2.6, -0.6), xlabel="position")
    strips.set_yticklabels(labels, fontsize=6)
    shares.set_ylabel("log10 share")
    scores.set_ylabel("score")
    for axes in (shares, scores):
        axes.legend(fontsize=7, frameon=False, ncols=3)
    title = (
        f"refresh of step {stage['step']}, layer {panel.state.layer}, KV head {stage['head']}, λ {stage['lam']:.4f}\n"
    )
    shares.set_title(
        f"{title}soft-NMS moved {stage['moved_by_nms']}, exclusivity {stage['moved_by_exclusivity']} of {stage['k']}",
        fontsize=8,
        loc="left",
    )
    return figure


def stability_figure(panel: StabilityPanel) -> Figure:
    """Overlap against lag within a sentence and across its end, with intervals where they have come."""
    curves = panel.curves
    if not curves:
        raise SfiError(f"nothing to draw: {panel.error}")
    figure, axes = single((4.6, 2.8))
    for side, colour, style in (("within", RECENT, "o-"), ("across", SLOW, "o--")):
        axes.plot(curves["lag"], _floats(curves[side]), style, color=colour, ms=3, lw=1.2, label=side)
        if f"{side}_low" in curves:
            low, high = _floats(curves[f"{side}_low"]), _floats(curves[f"{side}_high"])
            axes.fill_between(curves["lag"], low, high, color=colour, alpha=0.18, lw=0)
    axes.set(xlabel="steps apart", ylabel="overlap")
    axes.set_title(
        f"layer {curves['layer']}, from {SOURCES.get(curves['source'], curves['source'])}", fontsize=8, loc="left"
    )
    axes.legend(fontsize=7, frameon=False)
    return figure


def timing_figure(panel: SlowStepTiming) -> Figure:
    """Bars by stage, the distribution of both routes, and the streams of the chosen profile where there is one."""
    profile = panel.profiles[panel.profile] if panel.profiles else None
    figure = Figure(figsize=(7.0, 4.2 if profile else 2.6), layout="constrained")
    rows = figure.add_gridspec(2 if profile else 1, 2, width_ratios=[3, 1], height_ratios=[2, 1] if profile else [1])
    bars, spread = figure.add_subplot(rows[0, 0]), figure.add_subplot(rows[0, 1])
    values = np.nan_to_num(panel.values())
    base, edges = np.zeros(values.shape[1]), np.arange(values.shape[1] + 1)
    for row, name, colour in zip(values, panel.times["groups"], HUES, strict=True):
        bars.stairs(base + row, edges, baseline=base, fill=True, color=colour, label=name, lw=0)
        base = base + row
    if panel.bound:
        bound = np.frombuffer(panel.bound["values"], np.float32)
        bars.plot(edges[:-1] + 0.5, bound, color="black", lw=1.2, label=f"memory bound at {panel.bandwidth:g} GB/s")
    bars.set(xlim=panel.state.brush, xlabel="decode step", ylabel="ms")
    bars.legend(fontsize=6, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    routes = panel.session.trace.steps["route"]
    by = [base[(routes == route).to_numpy()] for route in ("fast", "slow")]
    spread.boxplot([part for part in by if len(part)], showfliers=False)
    names = [f"{n} ({len(part)})" for n, part in zip(("fast", "slow"), by, strict=True) if len(part)]
    spread.set_xticks(range(1, len(names) + 1), names, fontsize=7)
    if profile:
        _streams(figure.add_subplot(rows[1, :]), profile)
    return figure


def compare_figure(panel: Compare) -> Figure:
    """Selected positions of A and B: both grey, only A amber, only B green; the mass kept above; the numbers in the title."""
    if panel.sides is None:
        raise SfiError(f"nothing to draw: {panel.error}")
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    kept, picked = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.6])
    n = min(side.steps for side in panel.sides)
    for side, colour, style in zip(panel.sides, (BEFORE, SELECTED), ("--", "-"), strict=True):
        if side.kept is not None:
            kept.plot(side.kept[:n], style, color=colour, lw=1.1, label=f"{side.name} ({side.kind})")
    for part, colour in (("both", OTHER), ("a", BEFORE), ("b", SELECTED)):
        starts, ends, where = _difference_segments(panel, part, n)
        picked.hlines(where, starts, ends, color=colour, lw=0.6)
    state = panel.state
    kept.set_ylabel("mass kept")
    if kept.lines:
        kept.legend(fontsize=7, frameon=False, ncols=2)
    else:
        kept.set_yticks([])
        kept.text(
            0.5, 0.5, "no queries and keys recorded", transform=kept.transAxes, ha="center", va="center", fontsize=7
        )
    picked.set(xlim=state.brush, ylim=(state.span[1], state.span[0]), xlabel="decode step", ylabel="position")
    handles = [Patch(color=c) for c in (OTHER, BEFORE, SELECTED)]
    figure.legend(handles, ["both", "only A", "only B"], loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    kept.set_title("\n".join(f"{side.name}: {side.settings.to_code()}" for side in panel.sides), fontsize=7, loc="left")
    return figure


def _difference_segments(panel: Compare, part: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts = np.unique(np.r_[1, panel.sides[0].ranking.steps, panel.sides[1].ranking.steps])
    starts = starts[starts < n]
    return segments(starts, [panel.difference(int(s))[part] for s in starts], n)


def _streams(axes: Any, profile: dict[str, Any]) -> None:
    rows = [row for row in profile["rows"] if row[2] != "step"]
    lanes = list(dict.fromkeys(row[1] for row in rows))
    for stage in dict.fromkeys(row[2] for row in rows):
        boxes = [
            [(a, y - 0.4), (b, y - 0.4), (b, y + 0.4), (a, y + 0.4)]
            for _, stream, name, a, b in rows
            if name == stage
            for y in [lanes.index(stream)]
        ]
        axes.add_collection(PolyCollection(boxes, facecolor=STAGE_HUES.get(stage, OTHER), label=stage))
    axes.set(
        xlim=(0, max(row[4] for row in rows)), ylim=(len(lanes) - 0.5, -0.5), yticks=range(len(lanes)), xlabel="ms"
    )
    axes.set_yticklabels(lanes)
    axes.set_title(profile["title"], fontsize=7, loc="left")
    axes.legend(fontsize=6, frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1, 1))


def _curve(coded: dict[str, Any]) -> np.ndarray:
    codes = np.frombuffer(coded["codes"], np.uint16)
    return coded["low"] + codes / 65535 * (coded["high"] - coded["low"])


def _floats(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], float)


def _lines(words: list[str]) -> list[list[tuple[int, int, str]]]:
    """Tokens in lines: (column, index, what is shown)."""
    lines: list[list[tuple[int, int, str]]] = [[]]
    x = 0
    for i, word in enumerate(words):
        shown = word.replace("\n", "↵").replace("\t", "  ")
        if x + len(shown) > _COLUMNS:
            lines.append([])
            x = 0
        lines[-1].append((x, i, shown))
        x += len(shown)
        if "\n" in word:
            lines.append([])
            x = 0
    return [line for line in lines if line] or [[]]


def _write(axes: Any, x: float, y: float, words: str) -> None:
    axes.text(x, y + 0.75, words, fontsize=_FONT, family="DejaVu Sans Mono", parse_math=False)


def _box(x: int, y: int, width: int, colour: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y + 0.05), width, 0.9, color=colour, alpha=float(alpha), lw=0)
