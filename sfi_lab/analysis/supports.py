"""What each decode step attended to, as arrays [steps, rows, positions]: the raw material of stability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch

from sfi_lab.analysis.replay import LayerReplay
from sfi_lab.errors import SfiError
from sfi_lab.trace import Trace

SOURCES = ("auto", "read", "true", "qk")
AMONG = ("all", "candidates")


@dataclass(frozen=True, slots=True)
class Supports:
    """n decode steps, r rows (a row is a layer and KV head), at most m positions listed a step and row.

    steps, lengths (cached positions), sentences (of the query token): int32 [n]; ends bool [n]: the query token is the
    last of its sentence. layers, kv_heads: int16 [r]. positions int32 [n, r, m], heaviest first, -1 where fewer are
    listed; weights float32 [n, r, m], mean over the group's query heads; total float32 [n, r]: attention mass on all
    positions counted (of a table cut to candidates: listed candidates and everything unlisted, an upper bound).

    source: "dense" (every step read everything, so what it read is what it wanted), "true" (the audit's dense attention
    beside a sparse run), "qk" (recomputed from recorded queries and keys) or "read" (fast steps list only what they
    read, so their stability is partly the memory's own). among: "all", or "candidates" (without sink and recent).
    """

    steps: np.ndarray
    lengths: np.ndarray
    sentences: np.ndarray
    ends: np.ndarray
    layers: np.ndarray
    kv_heads: np.ndarray
    positions: np.ndarray
    weights: np.ndarray
    total: np.ndarray
    source: str
    among: str

    @property
    def honest(self) -> bool:
        """True if the supports are those of dense attention at every step."""
        return self.source != "read"

    def rows(self, chosen: np.ndarray) -> Supports:
        """Some of the rows (indices or a mask over r)."""
        return replace(
            self,
            layers=self.layers[chosen],
            kv_heads=self.kv_heads[chosen],
            positions=self.positions[:, chosen],
            weights=self.weights[:, chosen],
            total=self.total[:, chosen],
        )


def supports(
    trace: Trace,
    layers: Sequence[int] | None = None,
    source: str = "auto",
    steps: tuple[int, int] | None = None,
    among: str = "all",
    sink: int | None = None,
    recent: int | None = None,
    top: int | None = None,
) -> Supports:
    """Loads the supports of a trace's decode steps.

    Args:
        layers: recorded layers; all of them by default.
        source: "auto" takes the best there is: what was read where every step was dense, else the audit's dense
            attention, else queries and keys, else what was read. "read", "true" and "qk" ask for one of them.
        steps: first and last step number, inclusive.
        among: "all", or "candidates": each step's J, without the `sink` first and `recent` newest positions (by default
            the trace's settings).
        top: at most this many positions a step and row (default: as many as are listed; 64 from queries and keys).

    Raises SfiError for a source that the trace doesn't have, layers that it didn't record, or no decode step in range.
    """
    if source not in SOURCES or among not in AMONG:
        raise SfiError(
            f"source is one of {', '.join(SOURCES)} and among one of {', '.join(AMONG)}; got {source!r} and {among!r}"
        )
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    inside = pl.col("step").is_between(*steps) if steps else pl.lit(True)
    kept = decoded.with_row_index("index").filter(inside)
    if not kept.height:
        raise SfiError(f"{trace.path} has no decode step" + (f" between {steps[0]} and {steps[1]}" if steps else ""))
    chosen = _checked(trace, layers)
    found = _best_source(trace, chosen, decoded) if source == "auto" else source
    sentences = kept["query_sentence"].to_numpy()
    after = np.append(sentences[1:], kept["sentence"][-1])  # the last query's successor is the token it produced
    lengths = kept["keys_available"].to_numpy()
    s = trace.settings
    limits = _limits(lengths, s.sink if sink is None else sink, s.recent if recent is None else recent, among)
    if found == "qk":
        arrays = _from_queries(trace, chosen, kept["index"].to_numpy(), limits, top or 64)
    else:
        arrays = _from_table(trace, chosen, kept["step"].to_numpy(), found, limits, top)
    heads = trace.kv_heads
    return Supports(
        kept["step"].to_numpy(), lengths, sentences, sentences != after,
        np.repeat(np.asarray(chosen, np.int16), heads), np.tile(np.arange(heads, dtype=np.int16), len(chosen)),
        *arrays, "dense" if found == "read" and _all_dense(decoded) else found, among,
    )  # fmt: skip


def _checked(trace: Trace, layers: Sequence[int] | None) -> list[int]:
    chosen = sorted(set(trace.layers if layers is None else [int(layer) for layer in layers]))
    wrong = [layer for layer in chosen if layer not in trace.layers]
    if wrong or not chosen:
        have = ", ".join(map(str, trace.layers)) or "none"
        raise SfiError(
            f"{trace.path} has no support of layer {wrong[0] if wrong else '(none asked for)'}; it has layers {have}"
        )
    return chosen


def _all_dense(decoded: pl.DataFrame) -> bool:
    return bool((decoded["keys_read"] == decoded["keys_available"]).all())


def _best_source(trace: Trace, layers: list[int], decoded: pl.DataFrame) -> str:
    if _all_dense(decoded):
        return "read"
    if trace.meta["record"].startswith("audit"):
        return "true"
    return "qk" if set(layers) <= set(trace.qk_layers) else "read"


def _limits(lengths: np.ndarray, sink: int, recent: int, among: str) -> tuple[np.ndarray, np.ndarray] | None:
    """First position counted and the one after the last, by step; None: all."""
    if among == "all":
        return None
    return np.minimum(sink, lengths), np.maximum(lengths - recent, sink)


def _from_table(
    trace: Trace, layers: list[int], steps: np.ndarray, source: str, limits: tuple | None, top: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    prefix = "true_" if source == "true" else ""
    names = [f"{prefix}positions", f"{prefix}weights", f"{prefix}rest"]
    frame = (
        trace.support.filter(pl.col("layer").is_in(layers) & pl.col("step").is_between(int(steps[0]), int(steps[-1])))
        .select("step", "layer", "kv_head", *names)
        .collect()
        .sort("step", "layer", "kv_head")
    )
    if frame[names[0]].null_count():
        raise SfiError(f"{trace.path} has no dense attention beside the run; record with 'audit'")
    n, r = len(steps), len(layers) * trace.kv_heads
    if frame.height != n * r:
        raise SfiError(f"{trace.path} lists {frame.height} supports where {n} steps of {r} rows should have {n * r}")
    counts = frame[names[0]].list.len().to_numpy()
    m = int(counts.max(initial=1))
    positions, weights = np.full((n * r, m), -1, np.int32), np.zeros((n * r, m), np.float32)
    listed = np.arange(m)[None] < counts[:, None]
    positions[listed] = frame[names[0]].explode(empty_as_null=False).to_numpy()
    weights[listed] = frame[names[1]].explode(empty_as_null=False).to_numpy()
    positions, weights = positions.reshape(n, r, m), weights.reshape(n, r, m)
    rest = frame[names[2]].to_numpy().reshape(n, r)
    if limits is not None:
        inside = (positions >= limits[0][:, None, None]) & (positions < limits[1][:, None, None])
        order = np.argsort(~inside, axis=-1, kind="stable")
        positions = np.take_along_axis(np.where(inside, positions, -1), order, -1)
        weights = np.take_along_axis(np.where(inside, weights, 0), order, -1)
    total = weights.sum(-1) + rest
    return positions[..., :top], weights[..., :top], total


def _from_queries(
    trace: Trace, layers: list[int], index: np.ndarray, limits: tuple | None, top: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    missing = [layer for layer in layers if layer not in trace.qk_layers]
    if missing:
        raise SfiError(
            f"{trace.path} keeps no queries and keys of layer {missing[0]}; it keeps layers {trace.qk_layers}"
        )
    found = [candidate_weights(LayerReplay(trace, layer, output_error=False), index, limits) for layer in layers]
    width = min(top, found[0].shape[-1])
    tops = [torch.topk(w, width, dim=-1) for w in found]
    positions = torch.cat([t.indices for t in tops], dim=1).to(torch.int32).numpy()
    weights = torch.cat([t.values for t in tops], dim=1).numpy()
    return np.where(weights > 0, positions, -1), weights, torch.cat([w.sum(-1) for w in found], dim=1).numpy()


def candidate_weights(replay: LayerReplay, index: np.ndarray, limits: tuple | None = None) -> torch.Tensor:
    """Dense weights of some decode steps, mean over each group's query heads, zero outside `limits`: [n, H_kv, T]."""
    weights = replay.weights[torch.as_tensor(np.asarray(index, np.int64))]
    n, _, length = weights.shape
    mean = weights.view(n, replay.trace.kv_heads, -1, length).mean(2)
    if limits is not None:
        at = torch.arange(length)[None]
        low, high = (torch.as_tensor(np.asarray(bound, np.int64))[:, None] for bound in limits)
        mean = mean * ((at >= low) & (at < high))[:, None]
    return mean
