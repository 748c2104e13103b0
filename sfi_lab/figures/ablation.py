"""The selector with its stages switched off one by one: attention mass kept, and the error of the attention output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from sfi_lab.analysis.statistics import Estimate
from sfi_lab.figures import style
from sfi_lab.figures.arms import Arms, caption_arms, draw_arms, from_study
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.reselect import Change, bounds, difference, level, reselected, unit_word
from sfi_lab.figures.rows import Row, dots, in_points, zero_line
from sfi_lab.settings import Settings

TITLE = "Selector ablation"
NEEDS = "a controls study, or a trace recorded with '+qk'"

_RELEASED = Settings.released()
SELECTOR_FIELDS = ("alpha", "gamma", "beta", "power", "eta", "norm_weight", "position_weight", "lam", "lam_clip", "nms_radius",
                   "nms_strength", "exclusivity", "temperature")  # fmt: skip
VARIANTS: tuple[tuple[str, Change], ...] = (
    ("λ = 0 (no prior)", lambda s: s.with_(lam=0.0)),
    ("λ = 0.5", lambda s: s.with_(lam=0.5)),
    ("no soft-NMS", lambda s: s.with_(nms_strength=0.0)),
    ("no exclusivity", lambda s: s.with_(exclusivity=0.0)),
    ("plain Top-K of the evidence", lambda s: s.with_(lam=0.0, nms_strength=0.0, exclusivity=0.0)),
    ("released selector", lambda s: s.with_(**{field: getattr(_RELEASED, field) for field in SELECTOR_FIELDS})),
)


@dataclass(frozen=True, slots=True)
class Ablation:
    """levels: mass kept, in percent; kept, error: differences to the recorded settings, in points of a hundred."""

    levels: list[Row]
    kept: list[Row]
    error: list[Row]
    base_error: Estimate
    settings: str
    units: str
    n: int


def data(material: Material) -> Ablation | Arms:
    try:
        return from_study(material, ("selector", "window", "preset"))
    except Missing:
        return _from_traces(material)


def _from_traces(material: Material) -> Ablation:
    traces = material.with_queries()
    base = reselected(material, traces, lambda s: s)
    alone, oracle = bounds(material, traces)
    prior = reselected(material, traces, lambda s: s.with_(lam=1.0))
    levels = [
        Row("sink and recent alone", in_points(level(alone)), marked=True),
        Row("prior alone (λ = 1)", in_points(level(prior.kept))),
        Row("as recorded", in_points(level(base.kept))),
        Row("oracle Top-K, every step", in_points(level(oracle)), marked=True),
    ]
    kept, error = [], []
    for label, change in VARIANTS:
        got = reselected(material, traces, change)
        kept.append(Row(label, in_points(difference(got.kept, base.kept))))
        error.append(Row(label, in_points(difference(got.error, base.error))))
    return Ablation(
        levels, kept, error, level(base.error), traces[0].settings.to_code(), unit_word(traces), len(base.kept)
    )


def draw(found: Ablation | Arms) -> Figure:
    if isinstance(found, Arms):
        return draw_arms(found)
    figure = style.new(style.PAGE, 1.75)
    first, second, third = figure.subplots(1, 3, width_ratios=(1, 1.1, 1.1))
    dots(first, found.levels, style.INK)
    first.set_xlabel("attention mass kept (%)")
    style.letter(first, "a", "levels")
    zero_line(second)
    dots(second, found.kept, style.SELECTED)
    second.set_xlabel("difference (points)")
    style.letter(second, "b", "mass kept, against recorded")
    zero_line(third)
    dots(third, found.error, style.SLOW, labels=False)
    third.set_xlabel("difference (points)")
    style.letter(third, "c", f"output error, against {found.base_error.value:.1%}")
    third.set_yticks(np.arange(len(found.error)), [])
    return figure


def caption(found: Ablation | Arms) -> str:
    if isinstance(found, Arms):
        return caption_arms(found, "What to select, at the reference's refresh steps unless hollow, and which window:")
    return (
        f"Stages of the selector switched off one by one at the recorded refresh steps of {found.settings}: exact re-selection on recorded evidence, fast "
        f"steps, mean over the layers with queries. 95 % bootstrap intervals over {found.n} {found.units}, of paired differences in b and "
        "c. Hollow: the lower and the upper bound of any choice of K. Output error: ‖o - o_dense‖ / ‖o_dense‖."
    )
