"""Do supports agree more within a sentence than across its end, at the same lag? Curves and layers with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfi_lab.figures import style
from sfi_lab.figures.material import Material, Missing

TITLE = "Stability of attention support within and across sentences"
NEEDS = "a stability study, or a trace whose dense attention is known (dense, audit or '+qk')"
COMMAND = "sfi-lab study stability -o DIR"

PANELS = ("overlap", "kept")
WORDS = {"overlap": "overlap of supports", "jaccard": "Jaccard of supports", "kept": "mass kept on old support", "rank": "rank correlation"}


@dataclass(frozen=True, slots=True)
class Curves:
    curves: pl.DataFrame  # metric, lag, side, mean, low, high, pairs
    layers: pl.DataFrame  # layer, metric, effect, low, high, p_holm
    what: str
    verdict: str


def data(material: Material) -> Curves:
    columns = ("metric", "lag", "side", "mean", "low", "high", "pairs")
    try:
        curves = material.table(columns, "no stability study is there", COMMAND)
        layers = material.table(("layer", "metric", "effect", "low", "high", "p_holm"), "the study has no layers", COMMAND)
        return Curves(curves, layers, "study, bootstrap over prompts and sentences", "")
    except Missing:
        pass
    traces = material.traces_with(_honest, "neither a stability study nor a trace with dense attention is there", COMMAND)
    name = traces[0].meta["model"]["name"]
    same = [t for t in traces if t.meta["model"]["name"] == name and t.layers == traces[0].layers]
    found = material.keep(("stability", *(t.path for t in same)), lambda: _stability(same))
    prompts = f"{len(same)} text{'s' if len(same) > 1 else ''}"
    over = "texts and sentences" if len(same) > 1 else "the sentences of one text"
    return Curves(found.curves, found.layers, f"{name}, {prompts}, bootstrap over {over}", found.verdict)


def _stability(traces):
    from sfi_lab.analysis.stability import stability

    top = min(16, *(t.meta["top"] for t in traces), 64)
    # enough permutations that Holm's correction over the layers can reach 0.05 at all
    return stability(traces, metrics=PANELS, n=top, draws=300, permutations=max(1000, 30 * len(traces[0].layers)))


def _honest(trace) -> bool:
    record = trace.meta["record"]
    dense = bool((trace.steps["keys_read"].drop_nulls() == trace.steps.filter(pl.col("route") != "prefill")["keys_available"]).all())
    return bool(trace.layers) and (dense or record.startswith("audit"))


def draw(found: Curves) -> Figure:
    figure = style.new(style.PAGE, 2.1)
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    for mark, metric, at in zip("ab", PANELS, axes, strict=False):
        _curves(at, found.curves.filter(pl.col("metric") == metric))
        style.letter(at, mark, WORDS[metric])
        at.set_ylabel("share")
    axes[0].legend(loc="upper right")
    _layers(axes[2], found.layers.filter(pl.col("metric") == PANELS[0]).sort("layer"))
    style.letter(axes[2], "c", "within minus across, by layer")
    return figure


def _curves(at: Axes, curves: pl.DataFrame) -> None:
    for side, color, dash, marker in (("within", style.WITHIN, "-", "o"), ("across", style.ACROSS, (0, (4, 1.5)), "s")):
        part = curves.filter(pl.col("side") == side).drop_nulls("mean").sort("lag")
        at.plot(part["lag"], part["mean"], color=color, linestyle=dash, marker=marker, markersize=2.4, label=side)
        style.band(at, part["lag"], part["low"].fill_null(strategy="forward"), part["high"].fill_null(strategy="forward"), color)
    at.set_xlabel("lag (steps)")
    at.grid(axis="y")


def _layers(at: Axes, layers: pl.DataFrame) -> None:
    at.axhline(0, color=style.FAINT, linewidth=0.6)
    clear = layers["p_holm"].fill_null(1.0) < 0.05
    for chosen, face, label in ((layers.filter(clear), style.WITHIN, "p < 0.05 (Holm)"), (layers.filter(~clear), "white", "not significant")):
        if chosen.height:
            error = [chosen["effect"] - chosen["low"], chosen["high"] - chosen["effect"]]
            at.errorbar(chosen["layer"], chosen["effect"], error, fmt="o", color=style.WITHIN, mfc=face, markersize=2.8, elinewidth=0.7, label=label)
    at.set_xlabel("layer")
    at.set_ylabel("difference of overlap")
    at.grid(axis="y")
    low, high = at.get_ylim()
    at.set_ylim(low, high + 0.18 * (high - low))  # room for the legend
    at.legend(loc="upper left", ncols=2, columnspacing=1)


def caption(found: Curves) -> str:
    part = found.curves.filter((pl.col("metric") == PANELS[0]) & (pl.col("lag") == found.curves["lag"].min()))
    pairs = {row["side"]: row["pairs"] for row in part.iter_rows(named=True)}
    return (
        f"Supports of two decode steps compared at the same lag, both queries in one sentence or in different ones ({found.what}; "
        f"{pairs.get('within', 0)} and {pairs.get('across', 0)} pairs at the shortest lag). Bands and bars: 95 % intervals. {found.verdict}"
    ).strip()
