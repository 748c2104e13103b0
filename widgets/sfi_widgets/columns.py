"""Trace tables as flat arrays for the panels: ids and weights in rows of unequal length, never a dense matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfi_lab import Trace

SEPARATOR = "\x1f"  # between token texts: a character that no tokenizer's text shows
BUDGET = 700_000  # bytes of one array group in a message; a message holds at most two groups (limit: 2 MB)
LISTED = 96  # positions a step shown for the mean over heads


@dataclass(frozen=True, slots=True)
class Rows:
    """Lists of unequal length in one array: row i is ids[offsets[i]:offsets[i + 1]]."""

    offsets: np.ndarray  # uint32 [rows + 1]
    ids: np.ndarray  # int32 [total]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Rows:
        lengths = np.fromiter((len(row) for row in lists), np.uint32, len(lists))
        offsets = np.zeros(len(lists) + 1, np.uint32)
        np.cumsum(lengths, out=offsets[1:])
        ids = np.concatenate(lists) if len(lists) else np.empty(0)
        return cls(offsets, ids.astype(np.int32, copy=False))

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True, slots=True)
class Support:
    """What one head (or the mean) attended to: row i belongs to step i of the trace; heaviest first."""

    rows: Rows
    weights: np.ndarray  # float32 [total]
    rest: np.ndarray  # float32 [steps]: mass read but not listed; NaN where nothing was recorded


@dataclass(frozen=True, slots=True)
class Ranking:
    """Selections by refresh and head, best first: row r * heads + h is head h at the r-th refresh."""

    steps: np.ndarray  # int32 [refreshes]
    heads: int
    rows: Rows

    def at(self, refresh: int, k: int) -> np.ndarray:
        """The first k of every head at one refresh, ascending, each once."""
        first = refresh * self.heads
        return np.unique(np.concatenate([self.rows[first + h][:k] for h in range(self.heads)]))


def digest(*arrays: np.ndarray) -> str:
    """Twelve hex digits of what is shown; floats are rounded first, since torch builds differ in the last bits."""
    sha = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(np.round(array, 3) + 0.0 if array.dtype.kind == "f" else array)
        sha.update(f"{array.dtype}{array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:12]


def support(trace: Trace, layer: int, kv_heads: Sequence[int]) -> Support:
    """The recorded support of one KV head, or of the mean over several of the layer's."""
    table = trace.support.filter((pl.col("layer") == layer) & pl.col("kv_head").is_in(list(kv_heads)))
    n = trace.steps.height
    if len(kv_heads) > 1:
        heads = len(kv_heads)
        exploded = table.select("step", "positions", "weights").explode("positions", "weights")
        mean = exploded.group_by("step", "positions").agg(pl.col("weights").sum() / heads)
        heaviest = mean.sort(["step", "weights", "positions"], descending=[False, True, False])
        long = heaviest.group_by("step", maintain_order=True).head(LISTED).collect()
        listed = long.group_by("step").agg(pl.col("weights").sum())
        step, ids, weights = (long[name].to_numpy() for name in ("step", "positions", "weights"))
        rest_step, rest = listed["step"].to_numpy(), 1.0 - listed["weights"].to_numpy()
    else:
        rows = table.sort("step").select("step", "positions", "weights", "rest").collect()
        long = rows.select("step", "positions", "weights").explode("positions", "weights")
        step, ids, weights = (long[name].to_numpy() for name in ("step", "positions", "weights"))
        rest_step, rest = rows["step"].to_numpy(), rows["rest"].to_numpy()
    offsets = np.zeros(n + 1, np.uint32)
    np.cumsum(np.bincount(step, minlength=n), out=offsets[1:])
    by_step = np.full(n, np.nan, np.float32)
    by_step[rest_step] = np.clip(rest, 0, 1)
    return Support(Rows(offsets, ids.astype(np.int32)), weights.astype(np.float32), by_step)


def recorded_ranking(trace: Trace, layer: int, kv_heads: Sequence[int]) -> Ranking:
    """What the run itself selected at each of its refreshes."""
    table = trace.selection.filter((pl.col("layer") == layer) & pl.col("kv_head").is_in(list(kv_heads)))
    rows = table.sort("step", "kv_head").select("step", "positions").collect()
    steps = np.unique(rows["step"].to_numpy()).astype(np.int32)
    return Ranking(steps, len(kv_heads), Rows.of([row.to_numpy() for row in rows["positions"]]))


def ranking(refresh_steps: np.ndarray, positions: Sequence[np.ndarray], kv_heads: Sequence[int], room: int) -> Ranking:
    """A re-selection's ranking: positions [H_kv, K_i] per refresh, cut to `room` ids a head (best first, so a prefix)."""
    lists = [p[h, :room] for p in positions for h in kv_heads]
    return Ranking(np.asarray(refresh_steps, np.int32), len(kv_heads), Rows.of(lists))


def cut(ranking: Ranking, room: int) -> Ranking:
    """The ranking with at most `room` ids a row."""
    rows = ranking.rows
    if len(rows.offsets) < 2 or int(np.diff(rows.offsets.astype(np.int64)).max()) <= room:
        return ranking
    return Ranking(ranking.steps, ranking.heads, Rows.of([rows[i][:room] for i in range(len(rows.offsets) - 1)]))


def wire_ids(rows: Rows, positions: int) -> dict[str, Any]:
    """Ids as the front end takes them: 16 bits where they fit."""
    wide = positions > 0xFFFF
    return {
        "offsets": rows.offsets.tobytes(),
        "ids": rows.ids.astype(np.int32 if wide else np.uint16).tobytes(),
        "wide": wide,
    }


def wire_weights(weights: np.ndarray) -> bytes:
    """Weights in [0, 1] as 16-bit square roots: three digits right at 1e-5 as at 0.5."""
    return np.round(np.sqrt(np.clip(weights, 0, 1)) * 65535).astype(np.uint16).tobytes()


def wire_tokens(trace: Trace) -> dict[str, Any]:
    """Every position's text and sentence."""
    tokens = trace.tokens
    texts = [text.replace(SEPARATOR, " ") for text in tokens["text"].to_list()]
    return {"text": SEPARATOR.join(texts), "sentence": tokens["sentence"].to_numpy().astype(np.int32).tobytes()}


def wire_steps(trace: Trace) -> dict[str, Any]:
    """What every step was, one array a column."""
    steps = trace.steps
    slow = (steps["route"] == "slow").to_numpy()
    return {
        "count": steps.height,
        "position": steps["position"].to_numpy().astype(np.int32).tobytes(),
        "slow": slow.astype(np.uint8).tobytes(),
        "reason": steps["reason"].to_list(),
        "sentence": steps["query_sentence"].to_numpy().astype(np.int32).tobytes(),
        "available": steps["keys_available"].to_numpy().astype(np.int32).tobytes(),
        "read": steps["keys_read"].to_numpy().astype(np.float32).tobytes(),
    }
