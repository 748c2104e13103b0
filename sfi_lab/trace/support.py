"""Turns a step's attention weights into the rows of the support table: heaviest positions, their weights, the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from sfi_lab.trace.schema import SUPPORT


@dataclass(slots=True)
class Attended:
    """One layer's attention at one step. weights float32 [H_kv, N], positions int64 [H_kv, N] or None for 0 … N - 1."""

    weights: Tensor
    positions: Tensor | None
    dense: Tensor | None = None  # audit: dense weights of the same query [H_kv, T]
    missed: Tensor | None = None  # audit: dense mass outside what was read [H_kv]


@dataclass(slots=True)
class SupportRows:
    """Rows of one step with equally long lists, as arrays (n rows, m positions listed)."""

    step: int
    layer: np.ndarray  # int16 [n]
    kv_head: np.ndarray  # int16 [n]
    keys_read: int
    positions: np.ndarray  # int32 [n, m]
    weights: np.ndarray  # float32 [n, m], half precision
    rest: np.ndarray  # float32 [n]
    true_positions: np.ndarray | None = None
    true_weights: np.ndarray | None = None
    true_rest: np.ndarray | None = None
    missed: np.ndarray | None = None


def support_rows(step: int, attended: dict[int, Attended], top: int) -> list[SupportRows]:
    """All layers of a step at once: layers that read equally many positions share one top-k."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for layer, a in attended.items():
        by_length[a.weights.shape[1]].append(layer)
    rows = []
    for length, layers in by_length.items():
        weights = torch.stack([attended[layer].weights for layer in layers])  # [L, H_kv, N]
        indices, values, rest = heaviest(weights, top)
        given = [attended[layer].positions for layer in layers]
        if given[0] is not None:
            indices = torch.gather(torch.stack(given), 2, indices)
        heads = weights.shape[1]
        row = SupportRows(
            step,
            np.repeat(np.asarray(layers, np.int16), heads),
            np.tile(np.arange(heads, dtype=np.int16), len(layers)),
            length,
            *_flat(indices, values, rest),
        )
        if attended[layers[0]].dense is not None:
            true = heaviest(torch.stack([attended[layer].dense for layer in layers]), top)
            row.true_positions, row.true_weights, row.true_rest = _flat(*true)
            row.missed = torch.stack([attended[layer].missed for layer in layers]).reshape(-1).cpu().numpy()
        rows.append(row)
    return rows


def heaviest(weights: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """Indices and weights of the `top` largest along the last axis, heaviest first, and the sum of the others."""
    values, indices = torch.topk(weights, min(top, weights.shape[-1]), dim=-1)
    return indices, values, (weights.sum(-1) - values.sum(-1)).clamp_min(0.0)


def support_frame(rows: list[SupportRows]) -> pl.DataFrame:
    """The support table of several steps."""
    frames = [_frame(batch) for batch in _equal_runs(rows)]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SUPPORT)


def _flat(indices: Tensor, values: Tensor, rest: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m = indices.shape[-1]
    half = values.half().float()  # the listed weights carry half precision: the file is a third smaller
    return (
        indices.reshape(-1, m).to(torch.int32).cpu().numpy(),
        half.reshape(-1, m).cpu().numpy(),
        rest.reshape(-1).cpu().numpy(),
    )


def _equal_runs(rows: list[SupportRows]) -> list[list[SupportRows]]:
    """Neighbours whose arrays stack: the same list lengths, audited or not."""
    runs: list[list[SupportRows]] = []
    last = None
    for row in rows:
        shape = (row.positions.shape[1], None if row.true_positions is None else row.true_positions.shape[1])
        if shape != last:
            runs.append([])
            last = shape
        runs[-1].append(row)
    return runs


def _frame(rows: list[SupportRows]) -> pl.DataFrame:
    counts = [len(row.layer) for row in rows]
    total = sum(counts)

    def column(name: str, dtype: pl.DataType) -> pl.Series:
        if getattr(rows[0], name) is None:
            return pl.Series(name, [None] * total, dtype=dtype)
        array = np.concatenate([getattr(row, name) for row in rows])
        return pl.Series(name, array).cast(dtype)

    return pl.DataFrame(
        [
            pl.Series("step", np.repeat([row.step for row in rows], counts), dtype=pl.Int32),
            column("layer", pl.Int16),
            column("kv_head", pl.Int16),
            pl.Series("keys_read", np.repeat([row.keys_read for row in rows], counts), dtype=pl.Int32),
            *(column(name, SUPPORT[name]) for name in list(SUPPORT)[4:]),
        ]
    )
