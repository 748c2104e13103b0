"""Intervals, permutation tests, half-lives and what they say in words. Arrays in, numbers out; every draw is seeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its bootstrap interval, and a two-sided p-value where a test was made (nan otherwise)."""

    value: float
    low: float
    high: float
    p: float = float("nan")
    n: int = 0


def bootstrap_mean(values: Sequence[float], level: float = 0.95, draws: int = 2000, seed: int = 0) -> Estimate:
    """Mean of independent values (e.g. one a prompt) with a percentile interval; nan values are left out.

    With fewer than two values the interval is nan: one prompt says nothing about other prompts.
    """
    x = np.asarray(values, float)
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Estimate(float(x.mean()) if len(x) else float("nan"), float("nan"), float("nan"), n=len(x))
    picks = np.random.default_rng(seed).integers(0, len(x), (draws, len(x)))
    low, high = percentile_interval(x[picks].mean(1), level)
    return Estimate(float(x.mean()), float(low), float(high), n=len(x))


def paired_difference(
    a: Sequence[float], b: Sequence[float], level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Estimate:
    """Mean of a - b over pairs, bootstrap interval over pairs, and a sign-flip test of no difference.

    The test flips the sign of each pair's difference: all 2^n ways up to 12 pairs, else `draws` random ones. Pairs with
    a nan on either side are left out.
    """
    difference = np.asarray(a, float) - np.asarray(b, float)
    difference = difference[np.isfinite(difference)]
    mean = bootstrap_mean(difference, level, draws, seed)
    n = len(difference)
    if n < 2:
        return mean
    if n <= 12:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        extra = 0  # the observed signs are among all of them
    else:
        signs = np.random.default_rng(seed + 1).choice([-1, 1], (draws, n))
        extra = 1
    flipped = np.abs((signs * difference).mean(1))
    hits = int((flipped >= abs(mean.value) - 1e-15).sum())
    return Estimate(mean.value, mean.low, mean.high, (hits + extra) / (len(signs) + extra), n)


def percentile_interval(draws: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound along axis 0, nan draws left out; nan where every draw is nan."""
    tail = 100 * (1 - level) / 2
    with np.errstate(all="ignore"):
        empty = ~np.isfinite(draws).any(0)
        low, high = np.nanpercentile(np.where(empty, 0.0, draws), [tail, 100 - tail], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def permutation_p(observed: np.ndarray, permuted: np.ndarray) -> np.ndarray:
    """Two-sided p of each statistic: (1 + permutations at least as far from their mean) / (1 + permutations).

    observed [...], permuted [P, ...]. Measured from the permutations' own mean, which needn't be 0: pairs inside a
    sentence sit elsewhere in the text than pairs across a boundary even where boundaries mean nothing.
    """
    usable = np.isfinite(permuted)
    with np.errstate(all="ignore"):
        centre = np.where(usable, permuted, 0).sum(0) / usable.sum(0)
        far = np.abs(permuted - centre) >= np.abs(observed - centre) - 1e-12
    p = (1 + far.sum(0)) / (1 + permuted.shape[0])
    return np.where(np.isfinite(observed), p, np.nan)


def holm(p: Sequence[float]) -> np.ndarray:
    """p-values corrected for testing all of them (Holm 1979); nan stays nan and isn't counted."""
    p = np.asarray(p, float)
    out = np.full(p.shape, np.nan)
    order = [i for i in np.argsort(p) if np.isfinite(p[i])]
    running = 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - place) * p[i]))
        out[i] = running
    return out


def half_life(lags: Sequence[float], values: Sequence[float], floor: float = 0.0) -> float:
    """Lags in which values - floor falls to a half, by least squares of its logarithm on the lag; inf if it doesn't fall.

    Entries at or below the floor are left out; nan with fewer than two left.
    """
    x, y = np.asarray(lags, float), np.asarray(values, float) - floor
    usable = np.isfinite(y) & (y > 0)
    if usable.sum() < 2:
        return float("nan")
    slope = np.polyfit(x[usable], np.log(y[usable]), 1)[0]
    return float(np.log(2) / -slope) if slope < -1e-9 else float("inf")


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation with average ranks for ties; nan with fewer than three pairs or a constant side."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    usable = np.isfinite(x) & np.isfinite(y)
    x, y = _ranks(x[usable]), _ranks(y[usable])
    if len(x) < 3 or x.std() == 0 or y.std() == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(x: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


# sizes of an effect on a quantity between 0 and 1, for words only; the numbers are always printed beside them
_SLIGHT, _CLEAR = 0.02, 0.10


def effect_in_words(effect: Estimate, what: str, more: str, less: str, alpha: float = 0.05) -> str:
    """One plain sentence on an effect between -1 and 1.

    `more` says what a positive effect means, `less` a negative one. Without significance, or with an interval that
    holds 0, it says "no visible effect" and how large an effect the data would still allow.
    """
    numbers = f"{effect.value:+.3f} [{effect.low:+.3f}, {effect.high:+.3f}]" + (
        f", p = {effect.p:.3g}" if np.isfinite(effect.p) else ""
    )
    if not np.isfinite(effect.value):
        return f"{what}: nothing to compare (no pair on one of the two sides)."
    unclear = effect.low <= 0 <= effect.high or not np.isfinite(effect.low)
    if unclear or (np.isfinite(effect.p) and effect.p > alpha):
        bound = np.nanmax(np.abs([effect.low, effect.high, effect.value]))
        return f"{what}: no visible effect ({numbers}); these data leave room for one of at most {bound:.3f}."
    size = abs(effect.value)
    word = "a very small" if size < _SLIGHT else "a moderate" if size < _CLEAR else "a strong"
    return f"{what}: {word} effect, {more if effect.value > 0 else less} ({numbers})."
