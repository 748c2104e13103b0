"""Do supports agree more within a sentence than across its end, at the same lag? Curves and layers with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfi_lab.analysis.stability import Stability, stability
from sfi_lab.figures import style
from sfi_lab.figures.material import Material, Missing
from sfi_lab.trace import Trace

TITLE = "Stability of attention support within and across sentences"
NEEDS = "a stability study, or a trace whose dense attention is known (dense, audit or '+qk')"
COMMAND = "sfi-lab study stability -o DIR"

ALL, CANDIDATES = "all positions", "candidates"


@dataclass(frozen=True, slots=True)
class Curves:
    """panels: (title, curves with lag, side, mean, low, high, pairs); layers: layer, effect, low, high, p_holm of the first."""

    panels: list[tuple[str, pl.DataFrame]]
    layers: pl.DataFrame
    what: str
    verdict: str


OVERLAP = pl.col("metric") == "overlap"


def data(material: Material) -> Curves:
    try:
        return _from_study(material)
    except Missing:
        return _from_traces(material)


def _from_study(material: Material) -> Curves:
    plain = OVERLAP & ~pl.col("skip_ends")
    curves = material.table(
        ("metric", "lag", "side", "mean", "low", "high", "pairs", "among", "skip_ends"),
        "no stability study is there",
        COMMAND,
        plain,
    )
    layers = material.table(
        ("layer", "metric", "effect", "low", "high", "p_holm", "among", "skip_ends"),
        "the study has no layers",
        COMMAND,
        plain,
    )
    panels = [
        (title, curves.frame.filter(pl.col("among") == among))
        for among, title in (("all", ALL), ("candidates", CANDIDATES))
    ]
    prompts = material.table(("prompt", "decode_steps", "sentences"), "the study has no prompts", COMMAND).frame.height
    what = f"{curves.said()}, {prompts} texts, bootstrap over texts and sentences"
    return Curves(panels, layers.frame.filter(pl.col("among") == "all"), what, "")


def _from_traces(material: Material) -> Curves:
    traces = material.traces_with(
        _honest, "neither a stability study nor a trace with dense attention is there", COMMAND
    )
    name = traces[0].meta["model"]["name"]
    same = [
        t
        for t in traces
        if t.meta["model"]["name"] == name and (t.layers, t.qk_layers) == (traces[0].layers, traces[0].qk_layers)
    ]
    top = min(16, *(t.meta["top"] for t in same))
    everywhere = material.keep(("stability", *(t.path for t in same)), lambda: _stability(same, top))
    panels = [(ALL, everywhere.curves.filter(OVERLAP))]
    if qk := same[0].qk_layers:
        among = material.keep(
            ("candidates", *(t.path for t in same)),
            lambda: _stability(same, top, layers=qk, source="qk", among="candidates"),
        )
        panels.append((f"{CANDIDATES}, layers {', '.join(map(str, qk))}", among.curves.filter(OVERLAP)))
    over = "texts and sentences" if len(same) > 1 else "the sentences of one text"
    what = f"{name}, top {top}, {len(same)} text{'s' if len(same) > 1 else ''}, bootstrap over {over}"
    return Curves(panels, everywhere.layers.filter(OVERLAP), what, everywhere.verdict)


def _stability(traces: list[Trace], top: int, **loading: Any) -> Stability:
    # enough permutations that Holm's correction over the layers can reach 0.05 at all
    return stability(
        traces, metrics=("overlap",), n=top, draws=300, permutations=max(1000, 30 * len(traces[0].layers)), **loading
    )


def _honest(trace: Trace) -> bool:
    """Its supports are those of dense attention: the audit's, or of a run in which every step read everything."""
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    dense = bool((decoded["keys_read"] == decoded["keys_available"]).all())
    return bool(trace.layers) and (dense or trace.meta["record"].startswith("audit"))


def draw(found: Curves) -> Figure:
    figure = style.new(style.PAGE, 2.1)
    *axes, last = figure.subplots(1, len(found.panels) + 1, width_ratios=(*(1 for _ in found.panels), 1.25))
    for mark, (title, curves), at in zip("ab", found.panels, axes, strict=False):
        _curves(at, curves)
        style.letter(at, mark, title)
        at.set_ylabel("overlap of supports")
    axes[0].legend(loc="upper right")
    _layers(last, found.layers.sort("layer"))
    style.letter(last, "abc"[len(axes)], "within minus across, by layer")
    return figure


def _curves(at: Axes, curves: pl.DataFrame) -> None:
    for side, color, dash, marker in (("within", style.WITHIN, "-", "o"), ("across", style.ACROSS, (0, (4, 1.5)), "s")):
        part = curves.filter(pl.col("side") == side).drop_nulls("mean").sort("lag")
        at.plot(part["lag"], part["mean"], color=color, linestyle=dash, marker=marker, markersize=2.4, label=side)
        style.band(
            at,
            part["lag"],
            part["low"].fill_null(strategy="forward"),
            part["high"].fill_null(strategy="forward"),
            color,
        )
    at.set_xlabel("lag (steps)")
    at.grid(axis="y")


def _layers(at: Axes, layers: pl.DataFrame) -> None:
    at.axhline(0, color=style.FAINT, linewidth=0.6)
    clear = layers["p_holm"].fill_null(1.0) < 0.05
    for chosen, face, label in (
        (layers.filter(clear), style.WITHIN, "p < 0.05 (Holm)"),
        (layers.filter(~clear), "white", "not significant"),
    ):
        if chosen.height:
            error = [chosen["effect"] - chosen["low"], chosen["high"] - chosen["effect"]]
            at.errorbar(
                chosen["layer"],
                chosen["effect"],
                error,
                fmt="o",
                color=style.WITHIN,
                mfc=face,
                markersize=2.8,
                elinewidth=0.7,
                label=label,
            )
    at.set_xlabel("layer")
    at.set_ylabel("difference of overlap")
    at.grid(axis="y")
    low, high = at.get_ylim()
    at.set_ylim(low, high + 0.18 * (high - low))  # room for the legend
    at.legend(loc="upper left", ncols=2, columnspacing=1)


def caption(found: Curves) -> str:
    curves = found.panels[0][1]
    first = curves.filter(pl.col("lag") == curves["lag"].min())
    pairs = dict(first.select("side", "pairs").iter_rows())
    return (
        f"Top-n supports of two decode steps compared at the same lag, both queries in one sentence or in different ones ({found.what}; "
        f"{pairs.get('within', 0)} and {pairs.get('across', 0)} pairs at lag 1). Bands and bars: 95 % intervals. {found.verdict}"
    ).strip()
