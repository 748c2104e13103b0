"""Within a sentence against across a boundary, at the same lag: the sums that bootstrap and permutation test share."""

from __future__ import annotations

import numpy as np

WITHIN, ACROSS = 0, 1


def same_sentence(labels: np.ndarray, lag: int) -> np.ndarray:
    """labels [..., n] sentence of each step's query -> bool [..., n - lag]."""
    return labels[..., :-lag] == labels[..., lag:]


def last_of_sentence(labels: np.ndarray, final: bool = False) -> np.ndarray:
    """labels [..., n] -> bool [..., n]: the next step's query is of another sentence (`final`: taken for the last step)."""
    end = np.full((*labels.shape[:-1], 1), final)
    return np.concatenate([labels[..., 1:] != labels[..., :-1], end], axis=-1)


def shuffled_boundaries(labels: np.ndarray, permutations: int, seed: int) -> np.ndarray:
    """The same sentence lengths in random order, `permutations` times: [P, n]. labels [n]."""
    rng = np.random.default_rng(seed)
    lengths = np.diff(np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1], [True]])))
    orders = rng.permuted(np.tile(lengths, (permutations, 1)), axis=1)
    starts = np.zeros((permutations, len(labels) + 1), np.int32)
    np.add.at(starts, (np.arange(permutations)[:, None], np.cumsum(orders, axis=1)), 1)
    return np.cumsum(starts[:, : len(labels)], axis=1)


def sentence_sums(
    values: np.ndarray, lags: np.ndarray, labels: np.ndarray, skip: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and counts of pairs by the earlier step's sentence: [S, L, 2 (within, across), r].

    values [L, n, r], nan where there is no pair; skip bool [n]: pairs with either step there are left out.
    """
    _, index = np.unique(labels, return_inverse=True)
    one_hot = (np.arange(index.max() + 1)[:, None] == index[None]).astype(np.float64)
    shape = (one_hot.shape[0], len(lags), 2, values.shape[2])
    sums, counts = np.zeros(shape), np.zeros(shape)
    for at, lag in enumerate(lags):
        v = values[at, :-lag].astype(np.float64)
        usable = np.isfinite(v)
        if skip is not None:
            usable &= ~(skip[:-lag] | skip[lag:])[:, None]
        v = np.where(usable, v, 0.0)
        within = same_sentence(labels, lag)[:, None]
        for side, chosen in ((WITHIN, within), (ACROSS, ~within)):
            sums[:, at, side] = one_hot[:, :-lag] @ (v * chosen)
            counts[:, at, side] = one_hot[:, :-lag] @ (usable & chosen)
    return sums, counts


def permuted_sums(
    values: np.ndarray, lags: np.ndarray, labels: np.ndarray, skip_ends: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and counts of pairs under many labellings [P, n]: [P, L, 2, r]."""
    p = labels.shape[0]
    shape = (p, len(lags), 2, values.shape[2])
    sums, counts = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    ends = last_of_sentence(labels) if skip_ends else None
    for at, lag in enumerate(lags):
        v = values[at, :-lag]
        usable = np.isfinite(v)
        v, usable = np.where(usable, v, 0.0).astype(np.float32), usable.astype(np.float32)
        within = same_sentence(labels, lag)
        keep = np.ones_like(within) if ends is None else ~(ends[:, :-lag] | ends[:, lag:])
        for side, chosen in ((WITHIN, within & keep), (ACROSS, ~within & keep)):
            mask = chosen.astype(np.float32)
            sums[:, at, side] = mask @ v
            counts[:, at, side] = mask @ usable
    return sums, counts


def differences(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """within - across at each lag, and its weight n_w n_a / (n_w + n_a), 0 where a side is empty.

    sums, counts [..., L, 2, r] -> two arrays [..., L, r].
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / counts
        both = counts[..., WITHIN, :] * counts[..., ACROSS, :] / counts.sum(-2)
    weight = np.nan_to_num(both)
    return np.where(weight > 0, means[..., WITHIN, :] - means[..., ACROSS, :], 0.0), weight
