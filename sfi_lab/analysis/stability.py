"""Is attention support stable within a sentence, and less so across a boundary? Numbers, intervals and one plain sentence.

The effect is within minus across *at the same lag*, computed inside each trace and lag, then averaged over both with
the weights n_within · n_across / (n_within + n_across). Pairs (t, t + lag) belong to the sentences of the two queries.
Intervals: bootstrap over sentences (of the earlier step), and over traces where there are several. p: the boundaries of
each trace are shuffled, its sentence lengths kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfi_lab.analysis import boundaries as cut
from sfi_lab.analysis.pairs import METRICS, pair_values
from sfi_lab.analysis.statistics import Estimate, effect_in_words, half_life, holm, percentile_interval, permutation_p
from sfi_lab.analysis.supports import supports
from sfi_lab.errors import SfiError
from sfi_lab.trace import Trace


@dataclass(frozen=True, slots=True)
class Measured:
    """Pair values of one trace: values[metric] float32 [L, n, r]; lags [L]; sentences, ends [n]; layers, kv_heads [r]."""

    name: str
    lags: np.ndarray
    values: dict[str, np.ndarray]
    sentences: np.ndarray
    ends: np.ndarray
    layers: np.ndarray
    kv_heads: np.ndarray
    source: str


@dataclass(frozen=True, slots=True)
class Stability:
    """curves: metric, lag, side, mean, low, high, pairs - pairs of all traces together, mean over rows.
    effects: metric, lag (null: all lags), effect, low, high, p, pairs_within, pairs_across.
    layers: layer, metric, level (mean at the shortest lag), half_life (lags, all pairs), effect, low, high, p, p_holm.
    heads: layer, kv_head, metric, level, half_life, half_life_within, half_life_across, effect, low, high.
    verdict: a sentence on the first metric; source: where the supports came from ("dense", "true", "qk", "read").
    """

    curves: pl.DataFrame
    effects: pl.DataFrame
    layers: pl.DataFrame
    heads: pl.DataFrame
    verdict: str
    source: str
    traces: int


def measure(
    trace: Trace,
    lags: int | Sequence[int] = 16,
    n: int = 32,
    share: float | None = None,
    metrics: Sequence[str] = METRICS,
    name: str = "",
    **loading: Any,
) -> Measured:
    """Loads a trace's supports and compares all its pairs; `loading` goes to `supports`, the rest to `pair_values`."""
    found = supports(trace, **loading)
    pairs = pair_values(found, lags, n, share, metrics)
    return Measured(
        name or trace.path.name, pairs.lags, pairs.values, found.sentences, found.ends, found.layers, found.kv_heads, found.source
    )  # fmt: skip


def curve(
    measured: Measured, metric: str = "overlap", rows: np.ndarray | None = None, skip_ends: bool = False
) -> pl.DataFrame:
    """lag, within, across, pairs_within, pairs_across: means of one trace over some rows, without intervals (instant)."""
    values = _row_mean(measured.values[metric] if rows is None else measured.values[metric][..., rows])
    sums, counts = (
        x.sum(0)[..., 0]
        for x in cut.sentence_sums(values, measured.lags, measured.sentences, measured.ends if skip_ends else None)
    )
    with np.errstate(invalid="ignore"):
        means = sums / counts
    return pl.DataFrame(
        {
            "lag": measured.lags,
            "within": means[:, cut.WITHIN],
            "across": means[:, cut.ACROSS],
            "pairs_within": counts[:, cut.WITHIN].astype(int),
            "pairs_across": counts[:, cut.ACROSS].astype(int),
        }
    ).with_columns(pl.col("within", "across").fill_nan(None))


def stability(
    traces: Trace | Measured | Sequence[Trace | Measured],
    *,
    draws: int = 500,
    permutations: int = 1000,
    level: float = 0.95,
    skip_ends: bool = False,
    seed: int = 0,
    **measuring: Any,
) -> Stability:
    """Stability of one or several traces of the same model and layers.

    Args:
        traces: opened traces, or what `measure` made of them.
        draws, permutations: of the bootstrap and of the shuffled boundaries. level: of the intervals.
        skip_ends: leaves out pairs in which either query is the last token of its sentence. A full stop attends unlike
            other tokens; without it a difference across boundaries could be the punctuation's alone.
        measuring: goes to `measure` (lags, n, share, metrics, layers, source, among, …).

    Raises SfiError where traces differ in layers, heads or metrics, or there is none.
    """
    given = [traces] if isinstance(traces, (Trace, Measured)) else list(traces)
    all_measured = [m if isinstance(m, Measured) else measure(m, **measuring) for m in given]
    _check_alike(all_measured)
    first = all_measured[0]
    # a short trace has fewer lags: what all have is compared
    lags = first.lags[: min(len(m.lags) for m in all_measured)]
    context = _Context(all_measured, lags, draws, permutations, level, skip_ends, seed)
    curves, effects, layers, heads = [], [], [], []
    for metric in first.values:
        values = [m.values[metric][: len(lags)] for m in all_measured]
        overall = [_row_mean(v) for v in values]
        by_layer = [_group_mean(v, first.layers) for v in values]
        c, e = context.overall(metric, overall)
        curves.append(c)
        effects.append(e)
        layers.append(context.by_row(metric, by_layer, {"layer": np.unique(first.layers)}, permute=True))
        heads.append(context.by_row(metric, values, {"layer": first.layers, "kv_head": first.kv_heads}, permute=False))
    effects = pl.concat(effects)
    sources = sorted({m.source for m in all_measured})
    return Stability(
        pl.concat(curves), effects, pl.concat(layers).drop("half_life_within", "half_life_across"),
        pl.concat(heads).drop("p", "p_holm"), _verdict(effects, next(iter(first.values)), sources), "+".join(sources), len(given),
    )  # fmt: skip


class _Context:
    """What the parts of one `stability` call share: labels, draws, lags."""

    def __init__(self, measured, lags, draws, permutations, level, skip_ends, seed) -> None:
        self.lags, self.level, self.skip_ends = lags, level, skip_ends
        self.labels = [m.sentences for m in measured]
        self.skips = [m.ends if skip_ends else None for m in measured]
        self.permuted = [cut.shuffled_boundaries(m.sentences, permutations, seed + i) for i, m in enumerate(measured)]
        rng = np.random.default_rng(seed)
        many = len(measured) > 1
        times = (
            rng.multinomial(len(measured), np.full(len(measured), 1 / len(measured)), draws)
            if many
            else np.ones((draws, 1), int)
        )
        self.weights = []  # per trace [draws, S]: how often each sentence was drawn
        for i, labels in enumerate(self.labels):
            s = len(np.unique(labels))
            self.weights.append(
                np.stack([rng.multinomial(s * k, np.full(s, 1 / s)) for k in times[:, i]]).astype(float)
            )

    def overall(self, metric: str, values: list[np.ndarray]) -> tuple[pl.DataFrame, pl.DataFrame]:
        parts = [
            cut.sentence_sums(v, self.lags, *which)
            for v, which in zip(values, zip(self.labels, self.skips, strict=True), strict=True)
        ]
        sums, counts = (np.stack([p[x].sum(0) for p in parts])[..., 0] for x in (0, 1))  # [traces, L, 2]
        drawn = [
            (np.einsum("bs,slk->blk", w, s[..., 0]), np.einsum("bs,slk->blk", w, c[..., 0]))
            for w, (s, c) in zip(self.weights, parts, strict=True)
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums.sum(0) / counts.sum(0)
            low, high = percentile_interval(sum(s for s, _ in drawn) / sum(c for _, c in drawn), self.level)
        curves = pl.concat(
            pl.DataFrame(
                {"metric": metric, "lag": self.lags, "side": side, "mean": means[:, k], "low": low[:, k], "high": high[:, k],
                 "pairs": counts.sum(0)[:, k].astype(int)}
            )
            for k, side in ((cut.WITHIN, "within"), (cut.ACROSS, "across"))
        )  # fmt: skip
        observed = [cut.differences(p[0].sum(0), p[1].sum(0)) for p in parts]
        boots = [cut.differences(s[..., None], c[..., None]) for s, c in drawn]
        shuffled = [
            cut.differences(*cut.permuted_sums(v, self.lags, labels, self.skip_ends))
            for v, labels in zip(values, self.permuted, strict=True)
        ]
        rows = [
            self._effect(observed, boots, shuffled, slice(None)),
            *(self._effect(observed, boots, shuffled, slice(i, i + 1)) for i in range(len(self.lags))),
        ]
        pairs = counts.sum(0).astype(int)
        effects = pl.DataFrame(
            {"metric": metric, "lag": [None, *self.lags.tolist()], "effect": [e[0][0] for e in rows], "low": [e[1][0] for e in rows],
             "high": [e[2][0] for e in rows], "p": [e[3][0] for e in rows],
             "pairs_within": [pairs[:, 0].sum(), *pairs[:, 0]], "pairs_across": [pairs[:, 1].sum(), *pairs[:, 1]]},
            schema_overrides={"lag": pl.Int64},
        )  # fmt: skip
        return _nulls(curves), _nulls(effects)

    def by_row(self, metric: str, values: list[np.ndarray], keys: dict[str, np.ndarray], permute: bool) -> pl.DataFrame:
        parts = [
            cut.sentence_sums(v, self.lags, *which)
            for v, which in zip(values, zip(self.labels, self.skips, strict=True), strict=True)
        ]
        sums, counts = (sum(p[x].sum(0) for p in parts) for x in (0, 1))  # [L, 2, r]
        with np.errstate(invalid="ignore", divide="ignore"):
            whole, sides = sums.sum(1) / counts.sum(1), sums / counts
        observed = [cut.differences(p[0].sum(0), p[1].sum(0)) for p in parts]
        boots = [cut.differences(*(np.tensordot(w, x, 1) for x in p)) for w, p in zip(self.weights, parts, strict=True)]
        shuffled = None
        if permute:
            shuffled = [
                cut.differences(*cut.permuted_sums(v, self.lags, labels, self.skip_ends))
                for v, labels in zip(values, self.permuted, strict=True)
            ]
        effect, low, high, p = self._effect(observed, boots, shuffled, slice(None))

        def lives(curves: np.ndarray) -> list[float]:
            return [half_life(self.lags, column) for column in curves.T]

        frame = pl.DataFrame(
            {**{name: pl.Series(key) for name, key in keys.items()}, "metric": pl.Series([metric] * len(effect)), "level": whole[0],
             "half_life": lives(whole), "half_life_within": lives(sides[:, cut.WITHIN]), "half_life_across": lives(sides[:, cut.ACROSS]),
             "effect": effect, "low": low, "high": high, "p": p, "p_holm": holm(p)}
        )  # fmt: skip
        return _nulls(frame)

    def _effect(self, observed, boots, shuffled, lags: slice) -> tuple[np.ndarray, ...]:
        """Effect, bounds and p by row, over some lags and all traces."""

        def over(parts) -> np.ndarray:
            top = sum((d[..., lags, :] * w[..., lags, :]).sum(-2) for d, w in parts)
            bottom = sum(w[..., lags, :].sum(-2) for _, w in parts)
            with np.errstate(invalid="ignore", divide="ignore"):
                return top / bottom

        effect = over(observed)
        low, high = percentile_interval(over(boots), self.level)
        p = permutation_p(effect, over(shuffled)) if shuffled is not None else np.full(effect.shape, np.nan)
        return effect, low, high, p


def _row_mean(values: np.ndarray) -> np.ndarray:
    """Mean over rows, nan left out: [L, n, r] -> [L, n, 1]."""
    usable = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (np.where(usable, values, 0).sum(-1) / usable.sum(-1))[..., None]


def _group_mean(values: np.ndarray, layers: np.ndarray) -> np.ndarray:
    return np.concatenate([_row_mean(values[..., layers == layer]) for layer in np.unique(layers)], axis=-1)


def _nulls(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))


def _check_alike(measured: list[Measured]) -> None:
    if not measured:
        raise SfiError("stability needs at least one trace")
    first = measured[0]
    for other in measured[1:]:
        same = np.array_equal(first.layers, other.layers) and np.array_equal(first.kv_heads, other.kv_heads)
        if not same or list(first.values) != list(other.values):
            raise SfiError(
                f"{first.name} and {other.name} differ in layers, heads or metrics and can't be taken together"
            )


def _verdict(effects: pl.DataFrame, metric: str, sources: list[str]) -> str:
    row = effects.filter((pl.col("metric") == metric) & pl.col("lag").is_null()).row(0, named=True)
    values = [float("nan") if row[name] is None else row[name] for name in ("effect", "low", "high", "p")]
    words = effect_in_words(
        Estimate(*values), f"Sentence boundaries and {metric} of attention support", "supports agree more within a sentence",
        "supports agree less within a sentence than across a boundary",
    )  # fmt: skip
    if "read" in sources:
        words += " Fast steps list only what they read, so part of this stability is the memory's own; record 'audit' or a dense run."
    return words
