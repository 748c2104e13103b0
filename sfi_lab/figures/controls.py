"""Trigger controls: the sentence trigger against fixed, random and drift intervals with as many refreshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from sfi_lab.analysis.schedule import schedule
from sfi_lab.analysis.statistics import Estimate
from sfi_lab.figures import style
from sfi_lab.figures.arms import Arms, caption_arms, draw_arms, from_study
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.reselect import difference, level, reselected, unit_word
from sfi_lab.figures.rows import Row, dots, in_points, refresh_column, zero_line
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace

TITLE = "Trigger controls at equal refresh count"
NEEDS = "a controls study, or a trace recorded with '+qk' (then a proxy)"

SEEDS = 3


@dataclass(frozen=True, slots=True)
class Controls:
    """From traces. rows: mass kept in all steps, difference to the sentence trigger in points; refreshes: of these, a text;
    kept: mass that the first selection keeps if it is never renewed."""

    rows: list[Row]
    refreshes: list[float]
    base: Estimate
    base_refreshes: float
    never: Estimate
    what: str


def data(material: Material) -> Controls | Arms:
    try:
        return from_study(material, ("trigger", "query"))
    except Missing:
        return _from_traces(material)


def _from_traces(material: Material) -> Controls:
    traces = material.with_queries()

    def got(change: Callable[[Settings], Settings]):
        return reselected(material, traces, change, fast_only=False, error=False)

    base = got(lambda s: s.with_(trigger="sentence"))
    mean = base.refreshes / len(traces)
    rows, refreshes = [], []
    for label, change in matched(material, traces, mean):
        other = [got(c) for c in change]
        kept = np.mean([o.kept for o in other], axis=0)
        rows.append(Row(label, in_points(difference(kept, base.kept))))
        refreshes.append(float(np.mean([o.refreshes for o in other])) / len(traces))
    never = got(lambda s: s.with_(trigger="never", t_max=0))
    what = f"{len(base.kept)} {unit_word(traces)}; proxy: other refresh steps on the recorded trajectory"
    return Controls(rows, refreshes, level(base.kept), mean, in_points(difference(never.kept, base.kept)), what)


def matched(
    material: Material, traces: Sequence[Trace], refreshes: float
) -> list[tuple[str, list[Callable[[Settings], Settings]]]]:
    """Controls whose mean number of refreshes comes nearest to `refreshes` a trace; several seeds where chance decides."""
    steps = np.mean([len(t.decode_steps) for t in traces])
    period = max(1, round(steps / refreshes))

    def count(change: Callable[[Settings], Settings]) -> float:
        return float(np.mean([len(schedule(t, change(t.settings)).refreshes) for t in traces]))

    def nearest(changes):
        return min(changes, key=lambda change: abs(count(change) - refreshes))

    def periodic(p: int):
        return lambda s: s.with_(trigger="period", period=p, t_max=0)

    def random(seed: int):
        return lambda s: s.with_(trigger="random", period=period, seed=seed, t_max=0)

    def drift(threshold: float):
        return lambda s: s.with_(trigger="drift", drift_threshold=threshold, t_max=0)

    seeds = sorted(range(40), key=lambda seed: abs(count(random(seed)) - refreshes))[:SEEDS]
    return [
        ("fixed interval", [nearest([periodic(p) for p in range(max(1, period - 4), period + 5)])]),
        (f"random interval ({SEEDS} seeds)", [random(seed) for seed in seeds]),
        ("query drift", [drift(_threshold(lambda t: count(drift(t)), refreshes))]),
        ("sentence, next query", [lambda s: s.with_(fire_on="next_sentence")]),
    ]


def _threshold(count: Callable[[float], float], wanted: float, rounds: int = 12) -> float:
    """The drift threshold whose number of refreshes comes nearest (a higher threshold refreshes less often), by bisection."""
    low, high, tried = 0.0, 1.0, {}
    for _ in range(rounds):
        middle = (low + high) / 2
        tried[middle] = count(middle)
        low, high = (middle, high) if tried[middle] > wanted else (low, middle)
    return min(tried, key=lambda t: abs(tried[t] - wanted))


def draw(found: Controls | Arms) -> Figure:
    if isinstance(found, Arms):
        return draw_arms(found)
    figure = style.new(style.COLUMN, 1.6)
    at = figure.subplots()
    zero_line(at)
    dots(at, found.rows, style.RECENT)
    at.set_xlabel("mass kept, difference to sentence trigger (points)", loc="right")
    refresh_column(at, found.refreshes, -0.75)
    return figure


def caption(found: Controls | Arms) -> str:
    if isinstance(found, Arms):
        return caption_arms(found, "When to refresh, at equal K:")
    n = found.never
    return (
        "Attention mass kept over all decode steps when something other than a sentence's end decides when to refresh; the sentence trigger made "
        f"{found.base_refreshes:.0f} refreshes and kept {found.base.value:.1%}. 95 % bootstrap intervals of paired differences over {found.what}. "
        f"A first selection that is never renewed keeps {n.value:+.1f} points [{n.low:+.1f}, {n.high:+.1f}]."
    )
