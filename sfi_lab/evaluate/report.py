"""The evaluation's report: the tables that answer which method to take, in Markdown."""

from __future__ import annotations

import polars as pl

from sfi_lab.evaluate.summary import ALL, TEXTS
from sfi_lab.methods import METHODS
from sfi_lab.studies.report import table, with_interval

_HOW = (
    "Score: 0 to 1, by each task's own metric (share of right answers, F1, ROUGE; `metric` in samples.parquet). Difference: score less dense's on the same prompts; intervals are 95 % paired "
    "bootstraps over prompts, and where they hold 0, or a sign-flip test gives p > 0.05, the word is 'no difference found', "
    "which is not 'equal' (with fewer than six prompts: 'too few prompts'). Keys read: attended to, as a share of those cached, slow steps included; scored: looked at only "
    "to choose. Kept: bytes held, as a share of dense's. KL: nats a step to the dense model along its own tokens; over sfi's: "
    "geometric mean of the ratios on the same prompts, below 1 is closer to dense, and the same two tests decide on the word. No correction "
    "for comparing many methods was made."
)


_KL = (
    with_interval("kl", "kl_low", "kl_high", digits=4).alias("KL"),
    with_interval("kl_to_sfi", "kl_to_sfi_low", "kl_to_sfi_high", digits=2).alias("KL over sfi's"),
    pl.col("kl_to_sfi_verdict").alias("that is"),
)


def sections(samples: pl.DataFrame, summary: pl.DataFrame) -> list[tuple[str, str]]:
    """(heading, Markdown) of each part of the report."""
    parts = [("How to read this", _HOW)]
    scored = summary.filter(pl.col("score").is_not_null())
    if scored.height:
        whole = ALL if ALL in scored["group"].to_list() else scored["group"][0]
        title = "All tasks scored by answers" if whole == ALL else whole
        parts.append((title, _scores(scored.filter((pl.col("group") == whole) & (pl.col("length") == 0)))))
        parts.append(("By kind of task (score)", _wide(scored.filter(pl.col("length") == 0), "group", "score")))
        by_length = scored.filter((pl.col("group") == whole) & (pl.col("length") > 0))
        if by_length.height:
            parts.append(("By length (score)", _wide(by_length, "length", "score")))
    texts = summary.filter(pl.col("perplexity").is_not_null())
    groups = texts["group"].unique(maintain_order=True).to_list()
    for group in groups:
        mine = texts.filter(pl.col("group") == group)
        parts.append((f"{group}: perplexity and divergence", _texts(mine.filter(pl.col("length") == 0))))
        if (group == TEXTS or TEXTS not in groups) and (by_length := mine.filter(pl.col("length") > 0)).height:
            parts.append((f"{group}: by length (KL)", _wide(by_length, "length", "kl")))
    parts.append(("What was run", _what(samples)))
    return parts


def _scores(frame: pl.DataFrame) -> str:
    return table(
        _by_budget(frame).select(
            "method", "budget", "n",
            with_interval("score", "score_low", "score_high").alias("score"),
            with_interval("difference", "difference_low", "difference_high").alias("difference to dense"),
            "verdict",
            with_interval("to_sfi", "to_sfi_low", "to_sfi_high").alias("difference to sfi"),
            pl.col("to_sfi_verdict").alias("than sfi"),
            pl.col("keys_read").round().cast(pl.Int32), "read_share", "scored_share", "kept_share",
            *_KL,
            "top1",
        )
    )  # fmt: skip


def _wide(frame: pl.DataFrame, column: str, values: str) -> str:
    return table(_by_budget(frame).pivot(on=column, index=["method", "budget"], values=values, maintain_order=True))


def _texts(frame: pl.DataFrame) -> str:
    return table(
        _by_budget(frame).select(
            "method", "budget", "n", "perplexity",
            with_interval("log_perplexity_difference", "log_perplexity_low", "log_perplexity_high").alias("log ratio to dense"),
            pl.col("log_perplexity_verdict").alias("verdict"),
            *_KL, "top1", "repeated_4", "equal_share",
            pl.col("keys_read").round().cast(pl.Int32), "read_share",
        )
    )  # fmt: skip


def _by_budget(frame: pl.DataFrame) -> pl.DataFrame:
    """Dense first, then budget by budget in the order of the methods' table."""
    order = {name: i for i, name in enumerate(METHODS)}
    return (
        frame.with_columns(
            pl.col("method").str.split(":").list.first().replace_strict(order, default=len(order)).alias("_order")
        )
        .sort("budget", "_order", "method", nulls_last=False, maintain_order=True)
        .drop("_order")
    )


def _what(samples: pl.DataFrame) -> str:
    counts = samples.filter(pl.col("method") == "dense").group_by("kind", "length", maintain_order=True).agg(
        pl.len().alias("prompts"), pl.col("prompt_tokens").mean().round(0).cast(pl.Int32), pl.col("prefill_seconds").mean(),
    )  # fmt: skip
    seconds = samples["seconds"].sum()
    return (
        table(counts)
        + f"\n\nDecoding of all scored runs took {seconds:.0f} s in batches, reading the prompts {samples.filter(pl.col('method') == 'dense')['prefill_seconds'].sum():.0f} s."
    )
