"""Speed-up over dense against context, a model shape and batch by itself (the paper's figure 1, right, averages its own), with the
published numbers told apart."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sfi_lab.figures import published, style
from sfi_lab.figures.bench_rows import DECODE_COMMAND, decode_rows, intervals, one_interval, pairs, short, where
from sfi_lab.figures.material import Material, Missing

TITLE = "Speed-up over dense against context"
NEEDS = "decode benchmark rows of both arms"


@dataclass(frozen=True, slots=True)
class Gain:
    pairs: pl.DataFrame  # config, batch, context, gain
    device: str
    refresh: str


def data(material: Material) -> Gain:
    rows = one_interval(decode_rows(material))
    found = pairs(rows)
    if not found.height:
        raise Missing("the decode rows have no dense and SFI arm of the same configuration", DECODE_COMMAND)
    return Gain(found, where(rows), intervals(rows))


def draw(found: Gain) -> Figure:
    figure = style.new(style.COLUMN, 2.3)
    at = figure.subplots()
    most = found.pairs["context"].max()
    for i, ((config,), mine) in enumerate(found.pairs.group_by("config", maintain_order=True)):
        look = {"marker": style.MARKERS[i % 6], "color": style.SERIES[i % 6], "linewidth": 0.8}
        for j, ((batch,), part) in enumerate(mine.sort("batch", "context").group_by("batch", maintain_order=True)):
            # a line joins equal batches alone: with another batch the gain is another thing's
            at.plot(part["context"], part["gain"], **look, label=config if j == 0 else None)
            for context, gain in part.select("context", "gain").iter_rows():
                side = (-5, "right") if context == most else (4, "left")
                at.annotate(f"b{batch}", (context, gain), (side[0], -6), textcoords="offset points", ha=side[1],
                            fontsize=5.5, color=style.FAINT)  # fmt: skip
    for i, (model, batch) in enumerate(sorted({(m, b) for m, b, _ in published.THROUGHPUT})):
        points = sorted((c, g) for (m, b, c), g in published.THROUGHPUT.items() if (m, b) == (model, batch))
        at.plot(
            *zip(*points, strict=True),
            "x",
            color=style.OTHER,
            markersize=3,
            alpha=0.8,
            label="published (B200)" if i == 0 else None,
        )
    at.axhline(1, color=style.FAINT, linewidth=0.6)
    contexts = sorted({*found.pairs["context"].to_list(), 8192, 32768, 131072})
    at.set_xscale("log", base=2)
    at.set_yscale("log", base=2)
    at.set_xticks(contexts, [short(c) for c in contexts])
    at.xaxis.set_minor_locator(NullLocator())
    at.set_yticks([1, 2, 4, 8, 16], ["1×", "2×", "4×", "8×", "16×"])
    at.set_xlabel("context (positions)")
    at.set_ylabel("tokens a second, SFI over dense")
    at.grid(axis="y")
    at.legend(loc="upper left", fontsize=6)
    return figure


def caption(found: Gain) -> str:
    n = found.pairs["config"].n_unique()
    return (
        f"End-to-end decode speed-up over the dense arm of the same runtime on {found.device}, {n} model shapes with random weights, bN: batch (a line joins points of one shape and batch), a slow step every {found.refresh} steps included. Crosses: what "
        f"{published.SOURCE} prints for Qwen3 models on B200 GPUs over vLLM's Triton backend; other hardware, runtime and batches, so not like for like."
    )
