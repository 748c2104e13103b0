"""Attention of consecutive decode steps over two sentences, early, middle and late layer (the paper's figure 1, left)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from sfi_lab.figures import style
from sfi_lab.figures.attention_rows import Stretch, layer_map, shown, two_sentences
from sfi_lab.figures.material import RECORD, Material
from sfi_lab.trace import Trace

TITLE = "Attention maps over consecutive steps of two sentences"
NEEDS = "a trace; with '+qk' the maps are complete, else they show the listed positions"

BINS = 220
FLOOR = 1e-4  # mass below this has the map's darkest colour


@dataclass(frozen=True, slots=True)
class Maps:
    model: str
    stretch: Stretch
    layers: list[int]
    maps: list[np.ndarray]  # [steps, bins] attention mass, mean over heads
    recent: int
    prompt: int
    complete: bool


def data(material: Material) -> Maps:
    (trace, *_) = material.traces_with(
        lambda t: t.layers and len(t.decode_steps) > 1, "no trace with recorded support is there", RECORD
    )
    stretch, layers = two_sentences(trace), _three(trace)
    maps = [layer_map(material, trace, stretch, layer, None, BINS) for layer in layers]
    complete = set(layers) <= set(trace.qk_layers)
    return Maps(
        trace.meta["model"]["name"], stretch, layers, maps, trace.settings.recent, trace.meta["prompt_tokens"], complete
    )


def _three(trace: Trace) -> list[int]:
    """An early, a middle and a late layer, of those with queries and keys if there are three."""
    layers = trace.qk_layers if len(trace.qk_layers) >= 3 else trace.layers
    return sorted({layers[round(i * (len(layers) - 1) / 2)] for i in range(3)})


def draw(found: Maps) -> Figure:
    steps = len(found.stretch.labels)
    figure = style.new(style.PAGE, 0.75 + 0.082 * steps)
    axes = figure.subplots(1, len(found.maps), sharey=True, squeeze=False)[0]
    for mark, layer, mass, at in zip("abc", found.layers, found.maps, axes, strict=False):
        style.letter(at, mark, f"layer {layer}")
        image = at.imshow(
            np.maximum(mass, FLOOR),
            norm=LogNorm(FLOOR, 1),
            aspect="auto",
            extent=(0, found.stretch.length, steps - 0.5, -0.5),
        )
        for end in found.stretch.ends:
            at.axhline(end + 0.5, color="white", linewidth=1.2)
            at.axhline(end + 0.5, color=style.SLOW, linewidth=1.2, linestyle=(0, (3, 2)))
        at.plot(found.stretch.lengths - found.recent, range(steps), color="white", linewidth=0.7, linestyle=(0, (1, 2)))
        at.set_xlabel("cached position")
        at.tick_params(length=2)
    axes[0].set_yticks(range(steps), [shown(label) for label in found.stretch.labels], fontsize=5)
    axes[0].set_ylabel("decode step (the token fed), time downwards")
    bar = figure.colorbar(image, ax=list(axes), fraction=0.03, pad=0.01, aspect=30)
    bar.set_label(f"attention mass in {-(-found.stretch.length // BINS)} positions")
    bar.outline.set_visible(False)
    return figure


def caption(found: Maps) -> str:
    how = "dense weights from recorded queries and keys" if found.complete else "listed positions only"
    return (
        f"Attention of {len(found.stretch.labels)} consecutive decode steps, mean over the layer's heads ({how}), {found.model}. Dashed line: a sentence ends; "
        f"the recent window ({found.recent} positions) is right of the dotted line. One text: a picture, not a measurement."
    )
