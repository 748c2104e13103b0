"""An evaluation of methods as the panel draws it: its tables read and checked, a point an arm, prompts by their loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfi_lab.errors import SfiError
from sfi_lab.methods.families import marks, ordered

HOW = "sfi-lab evaluate --methods dense,sfi,snapkv,quest --tasks single_needle,fact_qa -o DIR"
QUALITIES = {"score": "score", "kl": "KL to dense (nats)", "perplexity": "perplexity / dense's"}
SUMMARY = ("group", "length", "method", "budget", "n", "score", "score_low", "score_high", "difference", "difference_low",
           "difference_high", "verdict", "read_share", "scored_share", "kept_share", "kl", "kl_low", "kl_high",
           "log_perplexity_difference", "log_perplexity_low", "log_perplexity_high")  # fmt: skip
SAMPLES = ("task", "kind", "scoring", "length", "method", "budget", "score", "kl", "perplexity", "text")
NUMBERS = ("n", "score", "score_low", "score_high", "difference", "kl", "kl_low", "kl_high", "perplexity", "perplexity_low",
           "perplexity_high", "read", "looked", "kept")  # fmt: skip
ALL = "all"  # the group of every kind that has answers
TEXTS = "long_texts"  # the group of every kind of text that the model writes at length


def read_results(
    results: str | Path | pl.DataFrame | Mapping[str, pl.DataFrame], samples: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Summary and samples of an evaluation; samples are None where there are none.

    results: a folder with summary.parquet (and samples.parquet), the summary as a frame, or {"summary": …, "samples": …}.

    Raises SfiError where the folder has no summary, or a table lacks columns.
    """
    if isinstance(results, pl.DataFrame):
        summary = results
    elif isinstance(results, Mapping):
        summary, samples = results.get("summary"), results.get("samples", samples)
        if not isinstance(summary, pl.DataFrame):
            raise SfiError(f"results hold {', '.join(map(str, results)) or 'nothing'}; needed: summary, a polars frame")
    elif isinstance(results, (str, Path)):
        summary, samples = _folder(Path(results), samples)
    else:
        raise SfiError(f"results = {type(results).__name__} is not allowed; allowed: a folder, or frames of polars")
    _check(summary, SUMMARY, "the summary")
    if samples is not None:
        _check(samples, SAMPLES, "the samples")
    if not summary.height:
        raise SfiError(f"the summary has no rows; {HOW} makes some")
    return summary, samples


def _folder(folder: Path, samples: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    path = folder / "summary.parquet"
    if not path.is_file():
        raise SfiError(f"{folder} has no summary.parquet; make it with: {HOW.replace('DIR', str(folder))}")
    own = folder / "samples.parquet"
    if samples is None and own.is_file():
        samples = pl.read_parquet(own)
    return pl.read_parquet(path), samples


def _check(frame: Any, columns: Sequence[str], name: str) -> None:
    if not isinstance(frame, pl.DataFrame):
        raise SfiError(f"{name} = {type(frame).__name__} is not allowed; allowed: a polars frame of sfi_lab.evaluate")
    if missing := [column for column in columns if column not in frame.columns]:
        raise SfiError(
            f"{name} lack{'s' if name.endswith('y') else ''} the columns {', '.join(missing)}; {HOW} writes them"
        )


def points(summary: pl.DataFrame) -> pl.DataFrame:
    """A row a group, length, method and budget: `NUMBERS` (float64, null where not measured) and the verdict.

    The score's bar is the interval of its difference to dense, laid around the score; dense's own is that of the score.
    perplexity: over dense's, the geometric mean over prompts. read, looked, kept: shares of the keys read, of those looked
    at only to choose, and of dense's bytes. Arms that decoded no step (read_share null) are left out.
    """
    middle = pl.col("score") - pl.col("difference")
    ratio = {f"perplexity{end}": pl.col(f"log_perplexity{of}").exp() for end, of in (("", "_difference"), ("_low", "_low"), ("_high", "_high"))}  # fmt: skip
    return (
        summary.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))
        .filter(pl.col("read_share").is_not_null())
        .select(
            "group", "length", "method", "budget", "n", "score",
            score_low=pl.coalesce(pl.col("difference_low") + middle, "score_low"),
            score_high=pl.coalesce(pl.col("difference_high") + middle, "score_high"),
            difference="difference", kl="kl", kl_low="kl_low", kl_high="kl_high", **ratio, read="read_share",
            looked=pl.col("scored_share").fill_null(0.0), kept="kept_share", verdict=pl.col("verdict").fill_null(""),
        )
    )  # fmt: skip


def wire(frame: pl.DataFrame) -> dict[str, Any]:
    """`points` as the browser takes them: methods with their marks, groups with their lengths, columns as bytes.

    numbers: float32 [len(NUMBERS), rows], NaN where not measured; at: int32 [5, rows] of the method's, the group's number,
    the length, the budget (-1 for dense) and the verdict's number.
    """
    methods, groups = ordered(frame["method"].to_list()), frame["group"].unique(maintain_order=True).to_list()
    verdicts = frame["verdict"].unique().sort().to_list()
    number = lambda column, names: [names.index(x) for x in frame[column]]  # noqa: E731
    at = [number("method", methods), number("group", groups), frame["length"].to_list(),
          frame["budget"].fill_null(-1).to_list(), number("verdict", verdicts)]  # fmt: skip
    lengths = {g: frame.filter(pl.col("group") == g)["length"].unique().sort().to_list() for g in groups}
    return {
        "methods": [
            {"label": label, "name": m.name, "family": m.family, "series": m.series, "marker": m.marker, "variant": m.variant}
            for label, m in marks(methods).items()
        ],
        "groups": [{"name": g, "title": group_title(g), "lengths": lengths[g]} for g in groups],
        "verdicts": verdicts, "names": list(NUMBERS), "at": np.asarray(at, np.int32).tobytes(),
        "numbers": frame.select(pl.col(NUMBERS).cast(pl.Float32).fill_null(float("nan"))).to_numpy().T.tobytes(),
    }  # fmt: skip


def group_title(group: str) -> str:
    """What a reader calls a group of tasks."""
    return "all kinds with answers" if group == ALL else group.replace("_", " ")


def by_loss(samples: pl.DataFrame, group: str, length: int, method: str, budget: int, quality: str) -> pl.DataFrame:
    """Prompts of one arm beside dense's run of the same prompt, what lost most first; length 0: all lengths.

    Columns: task, score, dense_score, kl (nats), ratio (perplexity over dense's), text, dense_text, loss (in the quality's
    own unit: score lost, nats, log of the ratio). Prompts without a loss come last.
    """
    scoring = {ALL: "answers", TEXTS: "generation"}
    here = pl.col("scoring") == scoring[group] if group in scoring else pl.col("kind") == group
    rows = samples.filter(here & ((pl.col("length") == length) | (length == 0)))
    rows = rows.select(pl.col(SAMPLES)).with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))
    dense = rows.filter(pl.col("method") == "dense").select(
        "task", dense_score="score", dense_perplexity="perplexity", dense_text="text"
    )
    mine = rows.filter((pl.col("method") == method) & (pl.col("budget") == budget)).join(dense, on="task", how="left")
    mine = mine.with_columns(ratio=pl.col("perplexity") / pl.col("dense_perplexity"))
    loss = {"score": pl.col("dense_score") - pl.col("score"), "kl": pl.col("kl"), "perplexity": pl.col("ratio").log()}
    return (
        mine.with_columns(loss=loss[quality])
        .sort("loss", "kl", "task", descending=[True, True, False], nulls_last=True)
        .select("task", "score", "dense_score", "kl", "ratio", "text", "dense_text", "loss")
    )
