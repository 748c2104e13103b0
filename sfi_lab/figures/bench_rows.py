"""Benchmark rows as the figures read them: one row a measured arm, columns by the names that `sfi-lab bench` writes."""

from __future__ import annotations

import polars as pl

from sfi_lab.figures.material import Material

# decode: config, arm ("dense", "sfi", or an outside arm), context (positions), batch, tokens_per_s; where known
# bound_tokens_per_s (memory bound of the bytes that the arm has to move), refresh (every M steps), k, device
DECODE = ("config", "arm", "context", "batch", "tokens_per_s")
DECODE_COMMAND = "sfi-lab bench decode --config qwen3-4b --context 8192,32768,131072 -o DIR"

# kernel: share (of the keys that the sparse kernel reads), arm, context, batch, ms; where known bound_ms, device
KERNEL = ("arm", "share", "context", "batch", "ms")
KERNEL_COMMAND = "sfi-lab bench kernel --context 16384 --batch 16 -o DIR"

# timeline of a profiled step: stream, stage, layer, start_us, end_us; where known step, route, overlap
TIMELINE = ("stream", "stage", "layer", "start_us", "end_us")
TIMELINE_COMMAND = "sfi-lab bench decode --config qwen3-0.6b --context 131072 --profile -o DIR"


def decode_rows(material: Material) -> pl.DataFrame:
    """Every decode row of the results: DECODE's columns, bound_tokens_per_s and device (null where not given)."""
    rows = material.rows(DECODE, "no decode benchmark is there", DECODE_COMMAND)
    for name, dtype in (
        ("bound_tokens_per_s", pl.Float64),
        ("device", pl.String),
        ("refresh", pl.Int64),
        ("k", pl.Int64),
    ):
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, dtype=dtype).alias(name))
    return rows.with_columns(pl.col("tokens_per_s", "bound_tokens_per_s").cast(pl.Float64)).sort(
        "config", "batch", "context"
    )


def pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Dense and SFI side by side: config, batch, context, refresh, k, dense, sfi (tokens a second), gain. One row a measured pair."""
    at = ["config", "batch", "context", "device"]
    dense = rows.filter(pl.col("arm") == "dense").group_by(at).agg(pl.col("tokens_per_s").max().alias("dense"))
    sfi = rows.filter(pl.col("arm") == "sfi").select(*at, "refresh", "k", pl.col("tokens_per_s").alias("sfi"))
    return (
        sfi.join(dense, on=at, nulls_equal=True)
        .with_columns((pl.col("sfi") / pl.col("dense")).alias("gain"))
        .sort("config", "batch", "context", "refresh")
    )


def where(rows: pl.DataFrame) -> str:
    """The devices, for captions."""
    return ", ".join(sorted(rows["device"].drop_nulls().unique().to_list())) or "device not recorded"


def short(context: int) -> str:
    """131072 -> "128K"."""
    return f"{context // 1024}K" if context >= 1024 and context % 1024 == 0 else f"{context:,}"
