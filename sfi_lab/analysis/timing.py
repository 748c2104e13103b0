"""Where the milliseconds of a recorded run went, by route and stage, and what the memory's speed alone would allow.

Recorded times carry the clock's own cost (a device wait at each stage on a GPU); `bench` measures uninstrumented runs.
All times are milliseconds a step and leave out what the recording itself took, which has a column of its own.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import torch

from sfi_lab.errors import SfiError
from sfi_lab.selector import STAGES
from sfi_lab.trace import Trace

PARTS = ("model", "attention", *STAGES, "pack", "sample")


def step_times(trace: Trace, steps: tuple[int, int] | None = None) -> pl.DataFrame:
    """step, route, reason, keys_read, keys_available, total, and one column for each of `PARTS` and "record"; decode steps only.

    steps: first and last step number, inclusive. total is the sum of the parts without "record".
    """
    frame = trace.steps.filter(pl.col("route") != "prefill")
    if steps is not None:
        frame = frame.filter(pl.col("step").is_between(*steps))
    if not frame.height:
        raise SfiError(f"{trace.path} has no decode step" + (f" between {steps[0]} and {steps[1]}" if steps else ""))
    parts = [pl.col(f"ms_{name}").fill_null(0.0).alias(name) for name in (*PARTS, "record")]
    timed = frame.select("step", "route", "reason", "keys_read", "keys_available", *parts)
    return timed.select(
        pl.col("step", "route", "reason", "keys_read", "keys_available"), pl.sum_horizontal(PARTS).alias("total"), pl.col(*PARTS, "record")
    )  # fmt: skip


def timing(trace: Trace, steps: tuple[int, int] | None = None) -> pl.DataFrame:
    """route, stage ("total" first), steps, mean, p50, p95, p99, share (of the route's mean total)."""
    times = step_times(trace, steps)
    found = []
    for (route,), part in times.group_by("route", maintain_order=True):
        total = part["total"].mean()
        for stage in ("total", *PARTS, "record"):
            found.append(
                {
                    "route": route,
                    "stage": stage,
                    "steps": part.height,
                    **_percentiles(part[stage]),
                    "share": part[stage].mean() / total if total else None,
                }
            )
    return pl.DataFrame(found).sort(pl.col("route"), maintain_order=True)


def slow_share(trace: Trace) -> dict[str, float | int | None]:
    """Slow and fast steps, the share of slow ones in number and in time, mean ms of both, and fast over slow."""
    times = step_times(trace)
    by = {route: times.filter(pl.col("route") == route)["total"] for route in ("slow", "fast")}
    slow, fast = (by[route].mean() for route in ("slow", "fast"))
    total = times["total"].sum()
    return {
        "slow_steps": len(by["slow"]),
        "fast_steps": len(by["fast"]),
        "share_of_steps": len(by["slow"]) / times.height,
        "share_of_time": by["slow"].sum() / total if total else None,
        "slow_ms": slow,
        "fast_ms": fast,
        "fast_over_slow": fast / slow if fast is not None and slow else None,
    }


def timing_by_context(trace: Trace, bins: int = 8) -> pl.DataFrame:
    """route, context_low, context_high (cached positions), steps, mean, p50, p95, p99: total time against context length."""
    times = step_times(trace)
    low, high = times["keys_available"].min(), times["keys_available"].max()
    edges = np.unique(np.linspace(low, high + 1, bins + 1).astype(int))
    at = np.searchsorted(edges, times["keys_available"].to_numpy(), side="right") - 1
    found = []
    for (route, bin_), part in times.with_columns(pl.Series("bin", at)).group_by("route", "bin", maintain_order=True):
        found.append(
            {
                "route": route,
                "context_low": int(edges[bin_]),
                "context_high": int(edges[bin_ + 1] - 1),
                "steps": part.height,
                **_percentiles(part["total"]),
            }
        )
    return pl.DataFrame(found).sort("route", "context_low")


def memory_bound(trace: Trace, bandwidth: float, weight_bytes: int = 0) -> pl.DataFrame:
    """The least time each step could take if reading memory were all there is, beside the measurement.

    Args:
        bandwidth: bytes a second of the device (`studies.machine.copy_bandwidth` measures it).
        weight_bytes: of the model; read once a step. 0 leaves the attention's share alone.

    Returns:
        step, route, keys_read, kv_bytes (keys and values read, all layers with full attention and KV heads), bound (ms),
        total (ms, measured), times_bound (total / bound).
    """
    if bandwidth <= 0:
        raise SfiError(f"bandwidth = {bandwidth} is not allowed; allowed: bytes a second, above 0")
    model = trace.meta["model"]
    itemsize = getattr(torch, model["dtype"]).itemsize
    full = sum(kind == "full" for kind in model["layer_kinds"])
    per_key = 2 * full * model["kv_heads"] * model["head_dim"] * itemsize
    times = step_times(trace).select("step", "route", "keys_read", "total")
    return times.with_columns(kv_bytes=(pl.col("keys_read") * per_key).cast(pl.Int64)).with_columns(
        bound=(pl.col("kv_bytes") + weight_bytes) / bandwidth * 1e3
    ).select("step", "route", "keys_read", "kv_bytes", "bound", "total", (pl.col("total") / pl.col("bound")).alias("times_bound"))  # fmt: skip


def _percentiles(values: pl.Series) -> dict[str, float]:
    p50, p95, p99 = np.percentile(values.to_numpy(), [50, 95, 99])
    return {"mean": values.mean(), "p50": float(p50), "p95": float(p95), "p99": float(p99)}
