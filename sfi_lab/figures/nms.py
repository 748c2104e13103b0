"""What soft-NMS and exclusivity do to a selection: coverage of the document, evidence kept, duplication across heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from sfi_lab.analysis.anatomy import refresh_anatomy
from sfi_lab.analysis.statistics import Estimate, bootstrap_mean
from sfi_lab.figures import style
from sfi_lab.figures.material import Material

TITLE = "Soft-NMS and exclusivity: coverage, evidence, duplication"
NEEDS = "a trace recorded with '+qk'"

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Nms:
    """By layer, one Estimate a strength (mean over refreshes, each the mean of its heads): coverage and evidence over α_soft,
    duplication over α_cross."""

    layers: list[int]
    coverage: list[list[Estimate]]
    evidence: list[list[Estimate]]
    duplication: list[list[Estimate]]
    refreshes: int
    settings: str
    model: str


def data(material: Material) -> Nms:
    traces = material.with_queries()
    name, layers = traces[0].meta["model"]["name"], traces[0].qk_layers
    same = [t for t in traces if t.meta["model"]["name"] == name and t.qk_layers == layers]
    coverage, evidence, duplication = [], [], []
    count = 0
    for layer in layers:
        columns = {"coverage": [], "evidence": [], "duplication": []}
        for strength in STRENGTHS:
            soft = [refresh_anatomy(material.replay(t, layer), t.settings.with_(nms_strength=strength)) for t in same]
            cross = [refresh_anatomy(material.replay(t, layer), t.settings.with_(exclusivity=strength)) for t in same]
            columns["coverage"].append(_by_refresh(soft, "coverage"))
            columns["evidence"].append(_by_refresh(soft, "evidence"))
            columns["duplication"].append(_by_refresh(cross, "duplication"))
            count = columns["coverage"][-1].n
        coverage.append(columns["coverage"])
        evidence.append(columns["evidence"])
        duplication.append(columns["duplication"])
    return Nms(layers, coverage, evidence, duplication, count, traces[0].settings.to_code(), name)


def _by_refresh(frames, column: str) -> Estimate:
    return bootstrap_mean(
        np.concatenate([f.group_by("step", maintain_order=True).mean()[column].to_numpy() for f in frames])
    )


def draw(found: Nms) -> Figure:
    figure = style.new(style.PAGE, 1.95)
    axes = figure.subplots(1, 3)
    panels = (
        (found.coverage, "α_soft", "stretches of J covered", "coverage of the document"),
        (found.evidence, "α_soft", "evidence on the selected", "evidence kept"),
        (found.duplication, "α_cross", "1 - |union| / Σ|S_h|", "duplication across heads"),
    )
    for mark, at, (values, x, y, title) in zip("abc", axes, panels, strict=True):
        for i, (layer, line) in enumerate(zip(found.layers, values, strict=True)):
            color = style.SERIES[i % 6]
            at.plot(
                STRENGTHS,
                [e.value for e in line],
                marker=style.MARKERS[i % 6],
                linestyle=style.DASHES[i % 6],
                color=color,
                label=f"layer {layer}",
            )
            style.band(at, STRENGTHS, [e.low for e in line], [e.high for e in line], color)
        at.set_xlabel(x)
        at.set_ylabel(y)
        at.set_xticks(STRENGTHS)
        at.grid(axis="y")
        style.letter(at, mark, title)
    style.legend_above(figure, *axes[0].get_legend_handles_labels(), 6)
    return figure


def caption(found: Nms) -> str:
    return (
        f"Selections of {found.model} at the recorded refresh steps under {found.settings}, one strength changed at a time (exact re-selection). Coverage: share of 64 "
        f"equal stretches of the candidates that hold a selected position. Means over {found.refreshes} refreshes with 95 % bootstrap intervals, heads averaged."
    )
