"""Benchmark rows as the figures read them: the columns that `sfi-lab bench` writes, dense and SFI arms brought together."""

from __future__ import annotations

import polars as pl

from sfi_lab.figures.material import Material

# decode, one row an arm: ms is a step's median, bound_ms what its bytes take at the device's measured read rate
DECODE = ("config", "arm", "context", "batch", "refresh", "ms", "bound_ms", "tokens_per_second", "device")
DECODE_COMMAND = "sfi-lab bench decode --config qwen3-4b --context 131072 --batch 6 -o RESULTS/decode.parquet"

# kernel, one row an arm: kept is the number of keys that a sparse arm reads, ms one launch
KERNEL = ("config", "arm", "kept", "context", "batch", "ms", "device")
KERNEL_COMMAND = "sfi-lab bench kernel --context 16384 --batch 16 -o RESULTS/kernel.parquet"

# timeline of a profiled step (sfi_lab.runtime.profile), milliseconds since it began; stage "step" is the whole
TIMELINE = ("layer", "stream", "stage", "start_ms", "end_ms")
TIMELINE_COMMAND = "sfi-lab bench pipeline --config qwen3-0.6b --context 131072 --batch 1 -o RESULTS/timeline.parquet"

USUAL = 32  # the refresh interval that figures show where it was measured


def decode_rows(material: Material) -> pl.DataFrame:
    """config, batch, context, device, kind ("dense", "sdpa", "sfi"), refresh, k, tokens, bound (both tokens a second); whole-run arms.

    Of several rows of the same thing the fastest stays. Arms of single kinds of steps (fast alone, slow alone) are left out.
    """
    rows = material.rows(DECODE, "no decode benchmark is there", DECODE_COMMAND)
    kind = (
        pl.when(pl.col("arm") == "dense").then(pl.lit("dense"))
        .when(pl.col("arm").str.contains("sdpa")).then(pl.lit("sdpa"))
        .when(pl.col("arm").str.starts_with("sfi")).then(pl.lit("sfi"))
    )  # fmt: skip
    k = pl.col("k") if "k" in rows.columns else pl.lit(None, pl.Int64).alias("k")
    found = rows.select(
        "config", "batch", "context", "device", kind.alias("kind"), pl.col("refresh").cast(pl.Int64), k,
        pl.col("tokens_per_second").cast(pl.Float64).alias("tokens"), (pl.col("batch") / pl.col("bound_ms") * 1e3).alias("bound"),
    )  # fmt: skip
    keys = ["config", "batch", "context", "device", "kind", "refresh", "k"]
    best = found.drop_nulls("kind").sort("tokens", descending=True).unique(keys, keep="first", maintain_order=True)
    return best.sort("config", "batch", "context", "kind", "refresh", nulls_last=True)


def one_interval(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the SFI rows those at the usual refresh interval; where it wasn't measured, at the longest one that was."""
    sfi = rows.filter(pl.col("kind") == "sfi")
    group = ["config", "batch", "context", "device"]
    chosen = sfi.sort((pl.col("refresh") != USUAL), -pl.col("refresh"), -pl.col("tokens"), nulls_last=True).unique(
        group, keep="first", maintain_order=True
    )
    return pl.concat([rows.filter(pl.col("kind") != "sfi"), chosen]).sort("config", "batch", "context", "kind")


def pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Dense and SFI side by side: config, batch, context, device, refresh, k, dense, sfi (tokens a second), gain."""
    at = ["config", "batch", "context", "device"]
    dense = rows.filter(pl.col("kind") == "dense").select(*at, pl.col("tokens").alias("dense")).unique(at)
    sfi = rows.filter(pl.col("kind") == "sfi").select(*at, "refresh", "k", pl.col("tokens").alias("sfi"))
    joined = sfi.join(dense, on=at, nulls_equal=True)
    return joined.with_columns((pl.col("sfi") / pl.col("dense")).alias("gain")).sort(
        "config", "batch", "context", "refresh"
    )


def where(rows: pl.DataFrame) -> str:
    """The devices, for captions."""
    return ", ".join(sorted(rows["device"].drop_nulls().unique().to_list())) or "a device that was not recorded"


def intervals(rows: pl.DataFrame) -> str:
    """The refresh intervals of the SFI rows, for captions."""
    return " or ".join(str(m) for m in rows.filter(pl.col("kind") == "sfi")["refresh"].drop_nulls().unique().sort())


def short(context: int) -> str:
    """131072 -> "128K"."""
    return f"{context // 1024}K" if context >= 1024 and context % 1024 == 0 else f"{context:,}"
