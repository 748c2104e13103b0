"""λ by layer and head: what the closed form gives before it is clipped, and how often the clip decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from sfi_lab.figures import style
from sfi_lab.figures.material import Material

TITLE = "λ by head, before the clip"
NEEDS = "a trace recorded with '+qk'"

CLIPS = (("paper 0.02", 0.02, style.DASHES[0]), ("released 0.25", 0.25, style.DASHES[1]))


@dataclass(frozen=True, slots=True)
class Lambdas:
    model: str
    layers: list[int]
    free: list[np.ndarray]  # per layer [refreshes of all traces, H_kv], unclipped


def data(material: Material) -> Lambdas:
    traces = material.with_queries()
    name = traces[0].meta["model"]["name"]
    layers = traces[0].qk_layers
    same = [t for t in traces if t.meta["model"]["name"] == name and t.qk_layers == layers]
    free = [
        np.concatenate([material.replay(t, layer).run(t.settings.with_(lam="auto", lam_clip=1.0)).lam for t in same])
        for layer in layers
    ]
    return Lambdas(name, layers, free)


def draw(found: Lambdas) -> Figure:
    figure = style.new(style.COLUMN, 2.2)
    at = figure.subplots()
    heads = found.free[0].shape[1]
    for label, clip, dash in CLIPS:
        at.axhline(clip, color=style.SLOW, linewidth=0.9, linestyle=dash, label=f"λ_clip, {label}")
    width = 0.7 / heads
    for i, values in enumerate(found.free):
        for head in range(heads):
            spread = np.linspace(-0.3, 0.3, len(values)) * width if len(values) > 1 else [0.0]
            x = i + (head - (heads - 1) / 2) * width + spread
            marker, color = style.MARKERS[head % 6], style.SERIES[head % 6]
            at.plot(
                x,
                values[:, head],
                marker,
                color=color,
                markersize=2.4,
                mew=0,
                alpha=0.8,
                label=f"KV head {head}" if i == 0 and heads <= 6 else None,
            )
    at.set_xticks(range(len(found.layers)), [f"layer {layer}" for layer in found.layers])
    at.set_ylim(-0.02, 1.02)
    at.set_ylabel("λ of the closed form, unclipped")
    at.grid(axis="y")
    style.legend_above(figure, *at.get_legend_handles_labels(), 3)
    return figure


def caption(found: Lambdas) -> str:
    every = np.concatenate([values.ravel() for values in found.free])
    return (
        f"The λ that minimises ‖s‖² for each refresh and KV head, {found.model}: median {np.median(every):.2f} of {len(every)} values; the clip decides in "
        f"{(every >= 0.02).mean():.0%} of them at 0.02 and in {(every >= 0.25).mean():.0%} at 0.25."
    )
