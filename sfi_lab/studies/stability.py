"""The stability study: dense runs over many prompts, and what their supports say about sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfi_lab.analysis.stability import Measured, Stability, measure, stability
from sfi_lab.analysis.statistics import half_life
from sfi_lab.settings import Settings
from sfi_lab.studies.reference import Reference, prompt_row
from sfi_lab.studies.report import table, with_interval

if TYPE_CHECKING:
    from sfi_lab.studies.store import Store

VIEWS = {"all": "all positions", "candidates": "candidates only (without sink and recent window)"}
_SHOWN = (1, 2, 4, 8, 16)


def run_prompt(
    reference: Reference, base: Settings, n: int = 32, share: float | None = None, lags: int = 16
) -> tuple[dict[str, pl.DataFrame], dict[str, np.ndarray]]:
    """Pair values of one prompt's dense run, over all positions and over candidates alone."""
    arrays: dict[str, np.ndarray] = {}
    for view in VIEWS:
        m = measure(
            reference.trace, lags, n, share, among=view, source="read" if view == "all" else "qk", sink=base.sink, recent=base.recent,
            top=64 if view == "all" else max(64, n),
        )  # fmt: skip
        arrays |= {f"{view}.{metric}": values for metric, values in m.values.items()}
        arrays |= {"lags": m.lags, "sentences": m.sentences, "ends": m.ends, "layers": m.layers, "kv_heads": m.kv_heads}
    return {"prompts": pl.DataFrame([prompt_row(reference)])}, arrays


def measured(store: Store, name: str, view: str) -> Measured:
    """One prompt's pair values as `stability` takes them."""
    a = store.arrays(name)
    values = {key.split(".", 1)[1]: value for key, value in a.items() if key.startswith(view + ".")}
    return Measured(name, a["lags"], values, a["sentences"], a["ends"], a["layers"], a["kv_heads"], "dense")


def finish(
    store: Store, names: list[str], draws: int = 500, permutations: int = 1000
) -> tuple[dict[str, pl.DataFrame], list[tuple[str, str]], dict]:
    """Tables, report sections and the JSON summary of the prompts that are done."""
    frames: dict[str, list[pl.DataFrame]] = {"curves": [], "effects": [], "layers": [], "heads": []}
    parts, verdicts = [], {}
    for view, words in VIEWS.items():
        loaded = [measured(store, name, view) for name in names]
        for skip in (False, True):
            found = stability(loaded, draws=draws, permutations=permutations, skip_ends=skip)
            label = words + (", without pairs that touch a sentence's last token" if skip else "")
            for table_name, rows in frames.items():
                rows.append(
                    getattr(found, table_name).select(
                        pl.lit(view).alias("among"), pl.lit(skip).alias("skip_ends"), pl.all()
                    )
                )
            verdicts[label] = found.verdict
            if not skip:
                parts.append((f"Decay: {words}", _curves(found)))
                parts.append((f"Layers: {words}", _layers(found)))
    prompts = store.frame("prompts", names)
    said = "\n".join(f"* {label[0].upper() + label[1:]}. {verdict}" for label, verdict in verdicts.items())
    effects = pl.concat(frames["effects"]).filter(pl.col("lag").is_null())
    parts = [
        ("What it says", said),
        ("Effect of a boundary", _EFFECT + "\n\n" + table(effects.select("among", "skip_ends", "metric", with_interval("effect").alias("within - across"), "p", "pairs_within", "pairs_across"))),
        *parts,
        ("Prompts", table(prompts.drop("text"), 0)),
    ]  # fmt: skip
    tables = {name: pl.concat(rows) for name, rows in frames.items()} | {"prompts": prompts}
    return tables, parts, {"verdicts": verdicts, "effects": effects.to_dicts(), "prompts": len(names)}


def _curves(found: Stability) -> str:
    wide = found.curves.filter(pl.col("lag").is_in(_SHOWN)).with_columns(with_interval("mean").alias("shown"))
    text = table(wide.pivot("side", index=["metric", "lag"], values="shown"))
    lives = []
    for (metric, side), part in found.curves.group_by("metric", "side", maintain_order=True):
        lives.append(
            f"{metric} {side} {half_life(part['lag'], part['mean'].cast(pl.Float64).fill_null(float('nan'))):.1f}"
        )
    return text + "\n\nHalf-lives in steps (log-linear fit over all lags, towards 0): " + ", ".join(lives) + "."


def _layers(found: Stability) -> str:
    overlap = found.layers.filter(pl.col("metric") == "overlap")
    significant = overlap.filter(pl.col("p_holm") < 0.05).height
    shown = overlap.select(
        "layer",
        pl.col("level").alias("overlap at lag 1"),
        "half_life",
        with_interval("effect").alias("within - across"),
        "p_holm",
    )
    return f"{significant} of {overlap.height} layers show an effect after Holm's correction.\n\n" + table(shown)


_EFFECT = (
    "Within minus across at the same lag and prompt, averaged over lags and prompts. Intervals: 95 %, bootstrap over prompts and "
    "sentences. p: boundaries shuffled inside each prompt, sentence lengths kept, two-sided."
)
