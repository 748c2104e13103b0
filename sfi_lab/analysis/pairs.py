"""How alike the supports of two steps are, for every pair of steps up to a lag: plain numpy, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfi_lab.analysis.supports import Supports
from sfi_lab.errors import SfiError

METRICS = ("overlap", "jaccard", "kept", "rank")


@dataclass(frozen=True, slots=True)
class Pairs:
    """values[metric] float32 [L, n, r]: entry [l, t, row] compares step t with step t + lags[l]; nan past the end.

    With A the support of the earlier step and B that of the later one:
    overlap |A ∩ B| / |A|; jaccard |A ∩ B| / |A ∪ B|; kept: the later step's attention mass on A over its whole mass
    (positions that the later step doesn't list count as 0, so from a table it is a lower bound); rank: Spearman
    correlation over A of the weights at both steps (unlisted ones share the last rank; nan if none is listed).
    """

    lags: np.ndarray
    values: dict[str, np.ndarray]


def pair_values(
    supports: Supports,
    lags: int | Sequence[int] = 16,
    n: int = 32,
    share: float | None = None,
    metrics: Sequence[str] = METRICS,
) -> Pairs:
    """Compares every step with the steps `lags` later (a number L stands for 1 … L), row by row.

    A step's support is its `n` heaviest positions, or with `share` the fewest that hold that share of its mass (all
    that are listed where the list ends before). Raises SfiError for unknown metrics, lags below 1, n or share out of range.
    """
    lags = np.arange(1, lags + 1) if isinstance(lags, int) else np.asarray(sorted(set(lags)), int)
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not len(lags) or lags[0] < 1 or n < 1 or (share is not None and not 0 < share <= 1):
        raise SfiError(
            f"pair_values takes metrics of {', '.join(METRICS)}, lags from 1, n from 1 and a share in (0, 1]; got "
            f"metrics {list(metrics)}, lags {lags.tolist()}, n {n}, share {share}"
        )
    sizes = support_sizes(supports, n, share)
    steps, rows = sizes.shape
    lags = lags[lags < steps]
    values = {name: np.full((len(lags), steps, rows), np.nan, np.float32) for name in metrics}
    length = int(supports.lengths.max())
    for row in range(rows):
        _compare_row(supports, row, sizes[:, row], lags, length, values)
    return Pairs(lags, values)


def support_sizes(supports: Supports, n: int = 32, share: float | None = None) -> np.ndarray:
    """Positions in each step's support, int [n steps, r]."""
    listed = (supports.positions >= 0).sum(-1)
    if share is None:
        return np.minimum(listed, n)
    mass = np.cumsum(supports.weights, axis=-1)
    enough = (mass < share * supports.total[..., None] - 1e-6).sum(-1) + 1
    return np.minimum(listed, enough)


def _compare_row(
    s: Supports, row: int, size: np.ndarray, lags: np.ndarray, length: int, values: dict[str, np.ndarray]
) -> None:
    positions, weights, total = s.positions[:, row], s.weights[:, row], s.total[:, row]
    steps, m = positions.shape
    # rank of every position in every step's list; m = not listed; the last column takes the -1 of short lists
    rank_of = np.full((steps, length + 1), m, np.int16)
    rank_of[np.arange(steps)[:, None], positions] = np.arange(m, dtype=np.int16)
    rank_of[:, -1] = m
    padded = np.concatenate([weights, np.zeros((steps, 1), np.float32)], axis=1)
    width = int(size.max(initial=0))
    mine = np.arange(width)[None] < size[:, None]  # [steps, width]: the support's own entries
    for at, lag in enumerate(lags):
        a, b = slice(0, steps - lag), slice(lag, steps)
        valid = mine[a]
        later = np.take_along_axis(rank_of[b], positions[a, :width].astype(np.intp), axis=1)
        common = (valid & (later < size[b, None])).sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            if "overlap" in values:
                values["overlap"][at, a, row] = common / size[a]
            if "jaccard" in values:
                values["jaccard"][at, a, row] = common / (size[a] + size[b] - common)
            if "kept" in values:
                mass = (np.take_along_axis(padded[b], later.astype(np.intp), axis=1) * valid).sum(1)
                values["kept"][at, a, row] = mass / total[b]
            if "rank" in values:
                values["rank"][at, a, row] = _rank_correlation(later, valid, m)


def _rank_correlation(later: np.ndarray, valid: np.ndarray, m: int) -> np.ndarray:
    """Spearman's ρ of entry order (0, 1, …) and `later`'s order, over the valid entries of each line."""
    width = later.shape[1]
    key = np.where(valid, later, m + 1).astype(np.int16)
    order = np.argsort(key, axis=1, kind="stable")
    y = np.empty(key.shape, np.float32)
    np.put_along_axis(y, order, np.arange(width, dtype=np.float32)[None], axis=1)
    listed = valid & (later < m)
    count, found = valid.sum(1), listed.sum(1)
    y = np.where(listed, y, ((found + count - 1) / 2)[:, None])
    x = np.arange(width, dtype=np.float32)[None]
    half = (count[:, None] - 1) / 2  # the mean of both rankings
    dx, dy = (x - half) * valid, (y - half) * valid
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = (dx * dy).sum(1) / np.sqrt((dx * dx).sum(1) * (dy * dy).sum(1))
    return np.where(found > 0, rho, np.nan)
