"""From per-sample rows to means with paired bootstrap intervals, and what the intervals say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sfi_lab.analysis.statistics import Estimate, bootstrap_mean, paired_difference

ALL = "all"  # the group of every kind that is scored by answers
TEXTS = "long_texts"  # the group of every kind of text that the model writes at length
_LEVEL = 0.05
_FEWEST = 6  # with five pairs or fewer no sign-flip test can give p ≤ 0.05
SUMMARY = {
    "group": pl.String, "length": pl.Int32, "method": pl.String, "budget": pl.Int32, "n": pl.Int32,
    "score": pl.Float64, "score_low": pl.Float64, "score_high": pl.Float64,
    "difference": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64, "p": pl.Float64,
    "verdict": pl.String, "to_sfi": pl.Float64, "to_sfi_low": pl.Float64, "to_sfi_high": pl.Float64, "to_sfi_verdict": pl.String,
    "read_share": pl.Float64, "scored_share": pl.Float64, "kept_share": pl.Float64, "keys_read": pl.Float64,
    "kl": pl.Float64, "kl_low": pl.Float64, "kl_high": pl.Float64,
    "kl_to_sfi": pl.Float64, "kl_to_sfi_low": pl.Float64, "kl_to_sfi_high": pl.Float64, "kl_to_sfi_verdict": pl.String,
    "top1": pl.Float64, "perplexity": pl.Float64,
    "log_perplexity_difference": pl.Float64, "log_perplexity_low": pl.Float64, "log_perplexity_high": pl.Float64,
    "log_perplexity_verdict": pl.String,
    "repeated_4": pl.Float64, "equal_share": pl.Float64, "seconds_per_token": pl.Float64,
}  # fmt: skip


def summarise(samples: pl.DataFrame) -> pl.DataFrame:
    """One row a group, length, method and budget; `SUMMARY` has the columns.

    group: "all" (kinds scored by answers, every kind weighing the same where all have equally many prompts), "long_texts"
    (kinds of text that the model writes at length), or one kind; length 0: all lengths. Intervals are 95 % percentile
    bootstraps over prompts; `difference` is the score less dense's on the same prompts, `to_sfi` less SFI's at the same
    budget, p of a sign-flip test. verdict: "no difference found" unless the interval leaves out 0 and p ≤ 0.05; "too few
    prompts" with fewer than six. kl_to_sfi: KL to dense over SFI's at the same budget, geometric mean over the prompts
    where neither is 0; below 1 is closer to dense. log_perplexity_difference: mean over prompts of log(perplexity / dense's).
    """
    rows = [
        _row(name, length, method, budget, part, dense, sfi)
        for name, length, group in _groups(samples)
        for (method, budget), part, dense, sfi in _arms(group)
    ]
    return pl.DataFrame(rows, schema=SUMMARY)


def verdict(found: Estimate, more: str = "better", less: str = "worse") -> str:
    """What a paired difference over prompts says, in words: `more` where it is above 0, `less` where it is below."""
    if found.n < _FEWEST:
        return "too few prompts"
    if not np.isfinite(found.low) or found.low <= 0 <= found.high or not found.p <= _LEVEL:
        return "no difference found"
    return more if found.value > 0 else less


def _groups(samples: pl.DataFrame) -> Iterator[tuple[str, int, pl.DataFrame]]:
    scored = samples.filter(pl.col("scoring") == "answers")
    texts = samples.filter(pl.col("scoring") == "generation")
    groups = [(name, part) for name, part in ((ALL, scored), (TEXTS, texts)) if part["kind"].n_unique() > 1]
    groups += [(kind, samples.filter(pl.col("kind") == kind)) for kind in samples["kind"].unique(maintain_order=True)]
    for name, frame in groups:
        yield name, 0, frame
        lengths = frame["length"].unique().sort().to_list()
        for length in lengths if len(lengths) > 1 else []:
            yield name, length, frame.filter(pl.col("length") == length)


def _arms(
    group: pl.DataFrame,
) -> Iterator[tuple[tuple[str, int | None], pl.DataFrame, pl.DataFrame, pl.DataFrame | None]]:
    """Every arm's rows, dense's and SFI's at the same budget, all sorted by task."""
    parts = {
        (method, budget): part.sort("task")
        for (method, budget), part in group.group_by("method", "budget", maintain_order=True)
    }
    dense = parts["dense", None]
    for (method, budget), part in parts.items():
        sfi = parts.get(("sfi", budget)) if method not in ("dense", "sfi") else None
        yield (method, budget), part, dense, sfi


def _row(
    group: str,
    length: int,
    method: str,
    budget: int | None,
    part: pl.DataFrame,
    dense: pl.DataFrame,
    sfi: pl.DataFrame | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group, "length": length, "method": method, "budget": budget, "n": part.height}
    values = part["score"].to_numpy().astype(float)
    row |= _estimate("score", bootstrap_mean(values))
    if method != "dense":
        to_dense = paired_difference(values, dense["score"].to_numpy().astype(float))
        row |= _estimate("difference", to_dense) | {"p": _finite(to_dense.p)}
        if row["difference"] is not None:
            row["verdict"] = verdict(to_dense)
        mine, theirs = (np.log(frame["perplexity"].to_numpy().astype(float)) for frame in (part, dense))
        ratio = paired_difference(mine, theirs)
        row |= {
            "log_perplexity_difference": _finite(ratio.value), "log_perplexity_low": _finite(ratio.low),
            "log_perplexity_high": _finite(ratio.high),
        }  # fmt: skip
        if row["log_perplexity_difference"] is not None:
            row["log_perplexity_verdict"] = verdict(ratio, "higher", "lower")
    if sfi is not None:
        to_sfi = paired_difference(values, sfi["score"].to_numpy().astype(float))
        row |= _estimate("to_sfi", to_sfi)
        if row["to_sfi"] is not None:
            row["to_sfi_verdict"] = verdict(to_sfi)
        row |= _kl_to_sfi(part, sfi)
    row |= _estimate("kl", bootstrap_mean(part["kl"].to_numpy().astype(float)))
    for name in ("read_share", "scored_share", "keys_read", "top1", "repeated_4", "equal_share"):
        row[name] = part[name].mean()
    perplexities = part["perplexity"].drop_nulls()
    row["perplexity"] = float(np.exp(np.log(perplexities.to_numpy()).mean())) if len(perplexities) else None
    held = part.filter(pl.col("dense_bytes") > 0)
    row["kept_share"] = (held["bytes_kept"] / held["dense_bytes"]).mean()
    steps = (part["new_tokens"] - 1).sum()
    row["seconds_per_token"] = part["seconds"].sum() / steps if steps else None
    return row


def _kl_to_sfi(part: pl.DataFrame, sfi: pl.DataFrame) -> dict[str, Any]:
    """The paired ratio of KLs, as `summarise` describes it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, theirs = (np.log(frame["kl"].to_numpy().astype(float)) for frame in (part, sfi))
        found = paired_difference(mine, theirs)
    row: dict[str, Any] = _estimate("kl_to_sfi", Estimate(*np.exp([found.value, found.low, found.high])))
    if row["kl_to_sfi"] is not None:
        row["kl_to_sfi_verdict"] = verdict(found, "farther", "closer")
    return row


def _estimate(name: str, found: Any) -> dict[str, float | None]:
    return {name: _finite(found.value), f"{name}_low": _finite(found.low), f"{name}_high": _finite(found.high)}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
