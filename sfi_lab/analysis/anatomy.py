"""The selector taken apart: every stage of one refresh per candidate, and what each stage did over all refreshes.

Functions that take a `LayerReplay` need queries and keys and can ask about other settings; `selection_anatomy` reads
the selection table of any trace.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor

from sfi_lab.analysis.replay import LayerReplay
from sfi_lab.errors import SfiError
from sfi_lab.selector import Selection
from sfi_lab.selector.equations import top_k
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace

_KEYS = {"step": pl.Int32, "layer": pl.Int16, "kv_head": pl.Int16, "candidates": pl.Int32, "selected": pl.Int32}
_NUMBERS = ("lam", "evidence", "coverage", "duplication", "churn", "median_age")
_STAGE_NUMBERS = (
    *(
        "lam",
        "evidence",
        "displaced_by_nms",
        "kept_by_nms",
        "displaced_by_exclusivity",
        "coverage_before_nms",
        "coverage",
    ),
    *("duplication_before", "duplication", "churn", "median_age"),
)

BINS = 64  # equal stretches of J whose coverage is counted


def stages(
    replay: LayerReplay, step: int, settings: Settings | None = None, heads: Sequence[int] | None = None
) -> pl.DataFrame:
    """One row a KV head and candidate of the refresh at `step` (any decode step: what if it had refreshed).

    kv_head, position, text, sentence, evidence (f), prior (r), fused (s), log_score (z), suppressed (z_nms), exclusive
    (z_adj), rank (0 is best, by z_adj; null where not among the K), rank_before_nms (by z) and rank_before_exclusivity
    (by z_nms), both among the K and null beyond.
    """
    settings = settings or replay.trace.settings
    steps = replay.trace.decode_steps
    if step not in steps:
        raise SfiError(f"step {step} is no decode step of {replay.trace.path}; there are {steps[0]} to {steps[-1]}")
    selection = replay.selection(steps.index(step), settings)
    count, j = selection.evidence.shape
    chosen = list(range(count)) if heads is None else list(heads)
    wrong = [head for head in chosen if not 0 <= head < count]
    if wrong:
        raise SfiError(f"KV head {wrong[0]} is out of range; allowed: 0 to {count - 1}")
    tokens = replay.trace.tokens.slice(settings.sink, j).select("position", "text", "sentence")
    ranks = {
        "rank": selection.ranked,
        "rank_before_nms": top_k(selection.log_score, settings.k),
        "rank_before_exclusivity": top_k(selection.suppressed, settings.k),
    }
    frames = []
    for head in chosen:
        values = {
            name: getattr(selection, name)[head].numpy()
            for name in ("evidence", "prior", "fused", "log_score", "suppressed", "exclusive")
        }
        placed = {name: _place(order[head], j) for name, order in ranks.items()}
        frames.append(
            tokens.with_columns(
                pl.lit(head, pl.Int16).alias("kv_head"), **{name: pl.Series(v) for name, v in (values | placed).items()}
            )
        )
    return pl.concat(frames).select("kv_head", pl.exclude("kv_head"))


def refresh_anatomy(replay: LayerReplay, settings: Settings | None = None) -> pl.DataFrame:
    """One row a refresh and KV head under `settings` (default: the recording's).

    step, layer, kv_head, lam (λ), candidates (J), selected (K), evidence (share of f on the selected);
    displaced_by_nms: share of Top-K(z) that is not in Top-K(z_nms); kept_by_nms the rest of it;
    displaced_by_exclusivity: share of Top-K(z_nms) that is not selected;
    coverage_before_nms, coverage: share of 64 equal stretches of J (fewer if J is shorter) that hold a selected position;
    duplication_before, duplication: 1 - |union over heads| / Σ|S_h|, of Top-K(z_nms) and of the selection (per refresh);
    churn: share of the selected that the previous refresh had not selected (null at the first);
    median_age: positions between the query and the median selected position.
    """
    settings = settings or replay.trace.settings
    selections = replay.selections(settings)
    trace, steps = replay.trace, replay.trace.decode_steps
    lengths = trace.steps.filter(pl.col("route") != "prefill")["keys_available"].to_list()
    rows, before = [], None
    for i, selection in selections.items():
        rows += _refresh_rows(selection, before, settings, {"step": steps[i], "layer": replay.layer}, lengths[i])
        before = selection
    return pl.DataFrame(rows, schema=_KEYS | dict.fromkeys(_STAGE_NUMBERS, pl.Float64))


def selection_anatomy(trace: Trace, layers: Sequence[int] | None = None) -> pl.DataFrame:
    """The recorded selections: step, layer, kv_head, lam, candidates, selected, evidence, coverage, duplication, churn, median_age.

    Meanings as in `refresh_anatomy`; every recorded layer by default.
    """
    table = trace.selection if layers is None else trace.selection.filter(pl.col("layer").is_in(list(layers)))
    frame = table.sort("layer", "step", "kv_head").collect()
    length = dict(trace.steps.select("step", "keys_available").iter_rows())
    rows, before, group = [], {}, []
    for row in frame.iter_rows(named=True):
        chosen = np.asarray(row["positions"], np.int64)
        first, candidates = row["first_candidate"], row["candidates"]
        last = before.get((row["layer"], row["kv_head"]))
        rows.append(
            {
                **{name: row[name] for name in ("step", "layer", "kv_head", "lam", "candidates")}, "selected": len(chosen),
                "evidence": row["evidence"], "coverage": coverage(chosen - first, candidates), "duplication": None,
                "churn": None if last is None else _new_share(chosen, last),
                "median_age": float(length[row["step"]] - 1 - np.median(chosen)),
            }
        )  # fmt: skip
        before[row["layer"], row["kv_head"]] = chosen
        group.append(chosen)
        if row["kv_head"] == trace.kv_heads - 1:
            shared = duplication(group)
            for made in rows[-len(group) :]:
                made["duplication"] = shared
            group = []
    return pl.DataFrame(rows, schema=_KEYS | dict.fromkeys(_NUMBERS, pl.Float64))


def ages(trace: Trace, layer: int) -> pl.DataFrame:
    """step, kv_head, rank, position, age (positions between query and selected position) of every recorded selection of a layer."""
    length = trace.steps.lazy().select("step", "keys_available")
    return (
        trace.selection.filter(pl.col("layer") == layer)
        .select("step", "kv_head", "positions")
        .join(length, on="step")
        .with_columns(rank=pl.int_ranges(pl.col("positions").list.len()))
        .explode("positions", "rank", empty_as_null=False)
        .select(
            "step",
            "kv_head",
            pl.col("rank").cast(pl.Int32),
            position="positions",
            age=pl.col("keys_available") - 1 - pl.col("positions"),
        )
        .sort("step", "kv_head", "rank")  # a join keeps no order
        .collect()
    )


def selected_text(trace: Trace, positions: Sequence[int]) -> pl.DataFrame:
    """position, text, sentence of some positions, in the order given. Raises SfiError for one beyond the trace."""
    wanted = np.asarray(positions, np.int64)
    if len(wanted) and not 0 <= wanted.min() <= wanted.max() < trace.tokens.height:
        raise SfiError(
            f"positions must be from 0 to {trace.tokens.height - 1}; got {int(wanted.min())} to {int(wanted.max())}"
        )
    return trace.tokens.select("position", "text", "sentence")[wanted.tolist()]


def passages(trace: Trace, positions: Sequence[int], gap: int = 1) -> pl.DataFrame:
    """Selected positions as text to read: neighbours at most `gap` positions apart are joined, what lies between included.

    first, last (positions), count (selected in it), text.
    """
    ordered = np.unique(np.asarray(positions, np.int64))
    if not len(ordered):
        return pl.DataFrame(schema={"first": pl.Int64, "last": pl.Int64, "count": pl.Int64, "text": pl.String})
    selected_text(trace, ordered)  # refuses positions that aren't there
    cuts = np.flatnonzero(np.diff(ordered) > gap) + 1
    texts = trace.tokens["text"]
    runs = np.split(ordered, cuts)
    return pl.DataFrame(
        {
            "first": [int(run[0]) for run in runs],
            "last": [int(run[-1]) for run in runs],
            "count": [len(run) for run in runs],
            "text": ["".join(texts[int(run[0]) : int(run[-1]) + 1]) for run in runs],
        }
    )


def coverage(candidates: np.ndarray, j: int, bins: int = BINS) -> float:
    """Share of `bins` equal stretches of 0 … j - 1 (j of them if fewer) that hold one of the candidates."""
    bins = min(bins, j)
    return len(np.unique(candidates * bins // j)) / bins if bins else 0.0


def duplication(by_head: Sequence[np.ndarray]) -> float:
    """1 - |union| / Σ sizes: 0 where heads share nothing, 1 - 1/H where all H hold the same."""
    total = sum(len(chosen) for chosen in by_head)
    return 1 - len(np.unique(np.concatenate(list(by_head)))) / total if total else 0.0


def _refresh_rows(now: Selection, before: Selection | None, s: Settings, where: dict, length: int) -> list[dict]:
    heads, j = now.evidence.shape
    by_z, by_nms = (top_k(z, s.k).numpy() for z in (now.log_score, now.suppressed))
    chosen = now.indices.numpy()
    share = torch.gather(now.evidence, 1, now.indices).sum(-1).tolist()
    shared_before, shared = duplication(list(by_nms)), duplication(list(chosen))
    rows = []
    for head in range(heads):
        moved = _new_share(by_z[head], by_nms[head])
        rows.append(
            {
                **where, "kv_head": head, "lam": float(now.lam[head]), "candidates": j, "selected": chosen.shape[1], "evidence": share[head],
                "displaced_by_nms": moved, "kept_by_nms": 1 - moved, "displaced_by_exclusivity": _new_share(by_nms[head], chosen[head]),
                "coverage_before_nms": coverage(by_z[head], j), "coverage": coverage(chosen[head], j),
                "duplication_before": shared_before, "duplication": shared,
                "churn": None if before is None else _new_share(chosen[head], before.indices[head].numpy()),
                "median_age": float(length - 1 - s.sink - np.median(chosen[head])),
            }
        )  # fmt: skip
    return rows


def _new_share(of: np.ndarray, other: np.ndarray) -> float:
    """Share of `of` that is not in `other`."""
    return 1 - len(np.intersect1d(of, other)) / len(of) if len(of) else 0.0


def _place(order: Tensor, j: int) -> pl.Series:
    """Candidates' places in an order, null beyond it."""
    place = np.full(j, -1, np.int32)
    place[order.numpy()] = np.arange(len(order), dtype=np.int32)
    return pl.Series(place).replace(-1, None)
