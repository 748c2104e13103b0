"""The control study: every way of reading over the same tokens, in one table with intervals paired by prompt.

All arms are teacher-forced on one trajectory a prompt, so their KL to dense compares like with like, and refresh counts
can be matched beforehand. Every row says its kind: "run" (the model was run with that memory), and beside it the proxy -
what the recorded dense trajectory would have predicted without a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfi_lab.analysis.fidelity import compare_logits
from sfi_lab.analysis.replay import LayerReplay
from sfi_lab.analysis.statistics import bootstrap_mean, holm, paired_difference, spearman
from sfi_lab.settings import Settings
from sfi_lab.studies.arms import Arm, arms
from sfi_lab.studies.forced import Everything, SlowFast, forced_pass
from sfi_lab.studies.reference import Reference, prompt_row
from sfi_lab.studies.report import table, with_interval

if TYPE_CHECKING:
    from sfi_lab.studies.store import Store

REFERENCE = "sentence (reference)"
FLOOR = "dense again (noise floor)"


def run_prompt(reference: Reference, base: Settings, proxy_layers: int = 6) -> dict[str, pl.DataFrame]:
    """Every arm of one prompt: tables "arms" (a row an arm), "steps" (a row an arm and step) and "prompts"."""
    tokens = reference.tokens
    dense = forced_pass(reference.prefix, tokens, None)
    layers = _spread(reference.trace.qk_layers, proxy_layers)
    replays = [LayerReplay(reference.trace, layer, output_error=True) for layer in layers]
    columns = [reference.trace.qk_layers.index(layer) for layer in layers]
    rows, steps = [], []
    everything = Arm(FLOOR, "dense", (Everything(),), None, 0, False)
    for arm in [*arms(reference, base), everything]:
        runs = [forced_pass(reference.prefix, tokens, reading) for reading in arm.readings]
        compared = [compare_logits(dense.logits[1:], run.logits[1:], tokens[1:]) for run in runs]
        proxies = [_proxy(replays, reading.settings) for reading in arm.readings if isinstance(reading, SlowFast)]
        rows.append(
            {
                "arm": arm.name, "group": arm.group, "equal_refreshes": arm.equal_refreshes, "refreshes": float(arm.refreshes),
                "read_share": _mean(run.read_share for run in runs),
                "kl": _mean(c["kl"].mean() for c in compared),
                "top1": _mean(c["top1_agrees"].mean() for c in compared),
                "nll": _mean(-c["logprob_run"].mean() for c in compared),
                "nll_dense": -compared[0]["logprob_reference"].mean(),
                "kept": _mean(run.kept.mean() for run in runs),
                "kept_layers": _mean(run.kept[:, columns].mean() if run.kept.shape[1] > 1 else run.kept.mean() for run in runs),
                "proxy_kept": _mean(kept for kept, _ in proxies),
                "proxy_error": _mean(error for _, error in proxies),
            }
        )  # fmt: skip
        steps.append(_step_rows(arm, compared[0], runs[0]))
    return {
        "arms": pl.DataFrame(rows, schema_overrides={"proxy_kept": pl.Float64, "proxy_error": pl.Float64}),
        "steps": pl.concat(steps),
        "prompts": pl.DataFrame([prompt_row(reference)]),
    }


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """One row an arm: means over prompts with intervals, and KL and kept mass against the reference arm, paired by prompt.

    kl_ratio is the geometric mean over prompts of KL / KL of the reference arm; p is the sign-flip test of its logarithm,
    p_holm the same corrected for all arms. kept_gain is the mean difference of kept mass.
    """
    reference = rows.filter(pl.col("arm") == REFERENCE).select("prompt", kl_ref="kl", kept_ref="kept", top1_ref="top1")
    found = []
    for name in rows["arm"].unique(maintain_order=True):
        arm = rows.filter(pl.col("arm") == name).join(reference, on="prompt", maintain_order="left")
        kl, kept, top1 = (bootstrap_mean(arm[column]) for column in ("kl", "kept", "top1"))
        ratio = paired_difference(np.log(arm["kl"].to_numpy() + 1e-9), np.log(arm["kl_ref"].to_numpy() + 1e-9))
        gain = paired_difference(arm["kept"], arm["kept_ref"])
        is_reference = name in (REFERENCE, FLOOR)
        found.append(
            {
                "arm": name, "group": arm["group"][0], "prompts": arm.height, "refreshes": arm["refreshes"].mean(),
                "equal_refreshes": bool(arm["equal_refreshes"].all()), "read_share": arm["read_share"].mean(),
                "kl": kl.value, "kl_low": kl.low, "kl_high": kl.high,
                "kl_ratio": None if is_reference else float(np.exp(ratio.value)),
                "kl_ratio_low": None if is_reference else float(np.exp(ratio.low)),
                "kl_ratio_high": None if is_reference else float(np.exp(ratio.high)),
                "p": None if is_reference else ratio.p,
                "top1": top1.value, "top1_low": top1.low, "top1_high": top1.high,
                "perplexity_ratio": float(np.exp((arm["nll"] - arm["nll_dense"]).mean())),
                "kept": kept.value, "kept_low": kept.low, "kept_high": kept.high,
                "kept_gain": None if is_reference else gain.value,
                "kept_gain_low": None if is_reference else gain.low, "kept_gain_high": None if is_reference else gain.high,
                "proxy_kept": arm["proxy_kept"].mean(), "proxy_error": arm["proxy_error"].mean(),
            }
        )  # fmt: skip
    frame = pl.DataFrame(found)
    corrected = holm([float("nan") if p is None else p for p in frame["p"]])
    return frame.with_columns(pl.Series("p_holm", corrected).fill_nan(None)).with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )


def proxy_quality(rows: pl.DataFrame) -> pl.DataFrame:
    """How well the dense trajectory predicts the run: what, n, value, low, high - correlations are Spearman's, over arms, a
    prompt at a time, averaged over prompts."""
    known = rows.filter(pl.col("proxy_kept").is_not_null())
    by_prompt = [part for _, part in known.group_by("prompt", maintain_order=True)]

    def over(name: str, values: Sequence[float]) -> dict:
        e = bootstrap_mean(values)
        return {"what": name, "prompts": e.n, "value": e.value, "low": e.low, "high": e.high}

    return pl.DataFrame(
        [
            over(
                "mean |proxy kept - kept in the run|, same layers",
                [(p["proxy_kept"] - p["kept_layers"]).abs().mean() for p in by_prompt],
            ),
            over("mean proxy kept - kept in the run", [(p["proxy_kept"] - p["kept_layers"]).mean() for p in by_prompt]),
            over(
                "rank correlation, proxy kept with kept in the run",
                [spearman(p["proxy_kept"], p["kept_layers"]) for p in by_prompt],
            ),
            over(
                "rank correlation, proxy missed mass with KL",
                [spearman(1 - p["proxy_kept"], p["kl"]) for p in by_prompt],
            ),
            over(
                "rank correlation, proxy output error with KL", [spearman(p["proxy_error"], p["kl"]) for p in by_prompt]
            ),
        ]
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


def since_refresh(
    steps: pl.DataFrame, arm: str = REFERENCE, edges: Sequence[int] = (1, 3, 6, 11, 21, 41)
) -> pl.DataFrame:
    """KL and kept mass by steps since the last refresh: does the memory go stale?"""
    fast = steps.filter((pl.col("arm") == arm) & (pl.col("since_refresh") > 0))
    place = np.searchsorted(edges, fast["since_refresh"].to_numpy(), side="right") - 1
    binned = (
        fast.with_columns(pl.Series("bin", place))
        .group_by("bin")
        .agg(pl.len().alias("steps"), pl.col("kl", "kept").mean())
        .sort("bin")
    )
    labels = [_labels(edges)[i] for i in binned["bin"]]
    return binned.select(pl.Series("steps_since_refresh", labels, dtype=pl.String), "steps", "kl", "kept")


def finish(store: Store, names: list[str]) -> tuple[dict[str, pl.DataFrame], list[tuple[str, str]], dict]:
    """Tables, report sections and the JSON summary of the prompts that are done."""
    rows = store.frame("arms", names)
    summary, quality = summarise(rows), proxy_quality(rows)
    steps, prompts = store.frame("steps", names), store.frame("prompts", names)
    stale = since_refresh(steps)
    shown = summary.select(
        "arm", pl.col("refreshes").round(1), "read_share", with_interval("kl", "kl_low", "kl_high").alias("KL to dense, nats"),
        with_interval("kl_ratio", "kl_ratio_low", "kl_ratio_high", 2).alias("KL ÷ reference"), pl.col("p").alias("p"), pl.col("p_holm"),
        with_interval("top1", "top1_low", "top1_high").alias("top-1 agreement"), "perplexity_ratio",
        with_interval("kept", "kept_low", "kept_high").alias("kept mass"), "proxy_kept",
    )  # fmt: skip
    parts = [
        ("What it says", "\n".join(f"* {line}" for line in findings(summary))),
        ("Arms", _ARMS + "\n\n" + table(shown)),
        ("How well the proxy predicts the run", table(quality)),
        ("Does the memory go stale?", "Fast steps of the reference arm.\n\n" + table(stale)),
        ("Prompts", table(prompts.drop("text"), 0)),
    ]
    tables = {
        "summary": summary,
        "arms": rows,
        "steps": steps,
        "prompts": prompts,
        "proxy": quality,
        "since_refresh": stale,
    }
    return tables, parts, {"arms": summary.to_dicts(), "proxy": quality.to_dicts(), "findings": findings(summary)}


def findings(summary: pl.DataFrame) -> list[str]:
    """A sentence an arm: better or worse than the reference, or no visible difference."""
    lines = []
    base = summary.filter(pl.col("arm") == REFERENCE).row(0, named=True)
    compared = summary.filter(pl.col("kl_ratio").is_not_null()).height
    too_few = compared * 2.0 ** (1 - summary["prompts"].max()) > 0.05  # the smallest p that the sign flips could give
    for row in summary.filter(pl.col("kl_ratio").is_not_null()).iter_rows(named=True):
        interval = (
            f"{row['kl_ratio']:.2f} times the reference's KL [{row['kl_ratio_low']:.2f}, {row['kl_ratio_high']:.2f}], Holm p = {row['p_holm']:.3g}"
            if row["p_holm"] is not None
            else "one prompt only, no interval"
        )
        if too_few:
            verdict = "undecided, too few prompts for the test"
        elif row["p_holm"] is None or row["p_holm"] > 0.05:
            verdict = "no visible difference"
        else:
            verdict = "closer to dense" if row["kl_ratio"] < 1 else "further from dense"
        note = _not_equal(row, base["read_share"])
        lines.append(f"{row['arm']}: {verdict} ({interval}{note}).")
    return lines


def _not_equal(row: dict, read_share: float) -> str:
    """What an arm doesn't have in common with the reference: its number of refreshes, or the keys that it read."""
    if not row["equal_refreshes"]:
        return f"; not at equal refresh count ({row['refreshes']:.1f} a prompt, {row['read_share']:.1%} of keys read)"
    if abs(row["read_share"] / read_share - 1) > 0.02:
        return f"; it read {row['read_share']:.1%} of the keys, the reference {read_share:.1%}"
    return ""


_ARMS = (
    "KL(dense ‖ run), mean over decode steps, teacher-forced on the same tokens; then the mean over prompts with a 95 % bootstrap "
    "interval over prompts. KL ÷ reference is the geometric mean of per-prompt ratios; p: sign-flip test over prompts, then Holm's "
    "correction over the arms. Kept mass: dense attention of the run's own queries on what was read, all steps, layers and heads. "
    "proxy kept: the same predicted from the recorded dense trajectory, on some layers."
)


def _proxy(replays: Sequence[LayerReplay], settings: Settings) -> tuple[float, float]:
    replayed = [replay.run(settings) for replay in replays]
    return _mean(r.kept.mean() for r in replayed), _mean(r.output_error.mean() for r in replayed)


def _step_rows(arm: Arm, compared: pl.DataFrame, run) -> pl.DataFrame:
    since: list[int | None] = [None] * compared.height
    if isinstance(arm.readings[0], SlowFast):
        last = None
        for i, plan in enumerate(arm.readings[0].plans):
            last = i if plan.refresh else last
            since[i] = None if last is None else i - last
    return compared.select(
        pl.lit(arm.name).alias("arm"), pl.col("row").cast(pl.Int32).alias("step"), pl.Series("since_refresh", since, dtype=pl.Int32),
        pl.col("kl").cast(pl.Float32), "top1_agrees", pl.Series("kept", run.kept.mean(1), dtype=pl.Float32),
        pl.Series("keys_read", run.keys_read.mean(1), dtype=pl.Float32),
    )  # fmt: skip


def _spread(layers: Sequence[int], n: int) -> list[int]:
    """n layers evenly over those there are."""
    picked = np.linspace(0, len(layers) - 1, min(n, len(layers))).round().astype(int)
    return [layers[i] for i in sorted(set(picked.tolist()))]


def _labels(edges: Sequence[int]) -> list[str]:
    return [f"{a}" if b - a == 1 else f"{a}-{b - 1}" for a, b in itertools.pairwise(edges)] + [f"{edges[-1]} and more"]


def _mean(values) -> float | None:
    found = list(values)
    return float(np.mean(found)) if found else None
