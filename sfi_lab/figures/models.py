"""Attention maps by layer and KV head, one row of maps a model (the paper's figure 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from sfi_lab.figures import style
from sfi_lab.figures.attention_rows import Stretch, layer_map, two_sentences
from sfi_lab.figures.material import RECORD, Material
from sfi_lab.trace import Trace

TITLE = "Attention maps by layer and head, for each model that a trace is given of"
NEEDS = "one trace a model"

COLUMNS, HEADS, BINS, FLOOR, STEPS = 5, 3, 110, 1e-4, 60


@dataclass(frozen=True, slots=True)
class ModelMaps:
    """One model. maps[head][column]: [steps, bins] attention mass."""

    name: str
    layers: list[int]
    heads: list[int]
    kv_heads: int
    stretch: Stretch
    maps: list[list[np.ndarray]]
    complete: list[bool]  # by column: dense weights, not only the listed positions
    top: int


def data(material: Material) -> list[ModelMaps]:
    traces = material.traces_with(
        lambda t: t.layers and len(t.decode_steps) > 1, "no trace with recorded support is there", RECORD
    )
    first = {}  # the first trace of each model
    for trace in traces:
        first.setdefault(trace.meta["model"]["name"], trace)
    alone = len(first) == 1
    return [_model(material, name, trace, HEADS if alone else 1) for name, trace in first.items()]


def _model(material: Material, name: str, trace: Trace, most: int) -> ModelMaps:
    layers = sorted({trace.layers[round(i * (len(trace.layers) - 1) / (COLUMNS - 1))] for i in range(COLUMNS)})
    heads = list(range(min(most, trace.kv_heads)))
    stretch = two_sentences(trace, STEPS)
    maps = [
        [layer_map(material, trace, stretch, layer, head if most > 1 else None, BINS) for layer in layers]
        for head in heads
    ]
    complete = [layer in trace.qk_layers for layer in layers]
    return ModelMaps(name, layers, heads, trace.kv_heads, stretch, maps, complete, trace.meta["top"])


def draw(found: list[ModelMaps]) -> Figure:
    rows = [(model, i) for model in found for i in range(len(model.maps))]
    figure = style.new(style.PAGE, 0.45 + 1.05 * len(rows))
    axes = figure.subplots(len(rows), COLUMNS, squeeze=False)
    for line, (model, i) in zip(axes, rows, strict=True):
        for at in line[len(model.layers) :]:
            at.remove()
        for column, (at, layer, mass) in enumerate(zip(line, model.layers, model.maps[i], strict=False)):
            steps = len(model.stretch.indices)
            image = at.imshow(
                np.maximum(mass, FLOOR),
                norm=LogNorm(FLOOR, 1),
                aspect="auto",
                extent=(0, model.stretch.length, steps, 0),
            )
            for end in model.stretch.ends:
                at.axhline(end + 1, color="white", linewidth=0.8)
                at.axhline(end + 1, color=style.SLOW, linewidth=0.8, linestyle=(0, (3, 2)))
            at.set_yticks([0, steps])
            at.set_xticks([0, model.stretch.length // 100 * 100 // 2, model.stretch.length // 100 * 100])
            at.label_outer(remove_inner_ticks=False)
            if i == 0:
                at.set_title(f"layer {layer}" + ("" if model.complete[column] else f", top {model.top}"))
            if i + 1 < len(model.maps):
                at.tick_params(labelbottom=False)
            if column:
                at.tick_params(labelleft=False)
        what = f"KV head {model.heads[i]}" if len(model.maps) > 1 else "mean of heads"
        line[0].set_ylabel(f"{_short(model.name)}\n{what}\nstep")
    for at in axes[-1][: len(rows[-1][0].layers)]:
        at.set_xlabel("cached position")
    bar = figure.colorbar(image, ax=list(figure.axes), fraction=0.03, pad=0.01, aspect=40)
    bar.set_label("attention mass of a map's column")
    bar.outline.set_visible(False)
    return figure


def _short(name: str) -> str:
    name = name.rsplit("/", 1)[-1]
    return name if len(name) <= 20 else name[:19] + "…"


def caption(found: list[ModelMaps]) -> str:
    what = "; ".join(
        f"{m.name}: {len(m.stretch.indices)} steps over {m.stretch.length} positions in {BINS} columns at most, "
        + (
            f"KV heads {', '.join(map(str, m.heads))} of {m.kv_heads}"
            if len(m.maps) > 1
            else f"mean of {m.kv_heads} KV heads"
        )
        for m in found
    )
    return f'Attention by step (downwards) and position. {what}. Dashed lines: a sentence ends. "top n": only the n heaviest positions of each step were recorded.'
