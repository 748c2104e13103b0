"""Attention of consecutive steps as picture rows: dense weights where queries and keys were kept, listed ones elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sfi_lab.analysis.supports import candidate_weights, supports
from sfi_lab.figures.material import Material
from sfi_lab.trace import Trace


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive decode steps of a trace. indices: rows among the decode steps; labels: the tokens fed; ends: rows
    after which a sentence ends; slow: rows whose step was slow."""

    indices: np.ndarray
    labels: list[str]
    ends: list[int]
    slow: list[int]
    lengths: np.ndarray  # positions cached at each, its own included

    @property
    def length(self) -> int:
        """Positions cached at the last step."""
        return int(self.lengths[-1])


def two_sentences(trace: Trace, longest: int = 36) -> Stretch:
    """The two neighbouring sentences of the generated text that fill `longest` steps best, cut to that many."""
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    sentence = decoded["query_sentence"].to_numpy()
    starts = np.flatnonzero(np.r_[True, sentence[1:] != sentence[:-1], True])
    spans = [(a, c, b) for a, b, c in zip(starts, starts[1:], starts[2:], strict=False)] or [
        (0, len(sentence), len(sentence))
    ]
    # both sides need some steps; among those the longest that fits
    first, last, _ = max(spans, key=lambda s: (min(s[2] - s[0], s[1] - s[2]) >= 6, min(s[1] - s[0], longest), -s[0]))
    last = min(last, first + longest)
    rows = np.arange(first, last)
    tokens = dict(trace.tokens.select("position", "text").iter_rows())
    part = decoded[first:last]
    ends = [i for i in range(len(rows) - 1) if sentence[rows[i]] != sentence[rows[i + 1]]]
    return Stretch(
        rows, [tokens[p] for p in part["position"]], ends,
        [i for i, route in enumerate(part["route"]) if route == "slow"], part["keys_available"].to_numpy(),
    )  # fmt: skip


def layer_map(
    material: Material, trace: Trace, stretch: Stretch, layer: int, kv_head: int | None, bins: int
) -> np.ndarray:
    """Attention mass by step and bin of positions, mean over heads unless one is named: float32 [steps, bins].

    From recorded queries and keys exactly; else from the listed positions (the rest of the mass is left out).
    """
    if layer in trace.qk_layers:
        weights = candidate_weights(material.replay(trace, layer), stretch.indices).numpy()  # [n, H_kv, T]
        weights = weights[:, kv_head] if kv_head is not None else weights.mean(1)
    else:
        steps = np.asarray(trace.decode_steps)[stretch.indices]
        found = supports(trace, [layer], steps=(int(steps[0]), int(steps[-1])))
        weights = np.zeros((len(steps), found.positions.shape[1], stretch.length + 1), np.float32)
        np.put_along_axis(
            weights, found.positions.astype(np.int64), found.weights, axis=2
        )  # -1 lands in the spare column
        weights = weights[..., :-1]
        weights = weights[:, kv_head] if kv_head is not None else weights.mean(1)
    return _pooled(weights[:, : stretch.length], bins)


def _pooled(weights: np.ndarray, bins: int) -> np.ndarray:
    """Sums over equal stretches of positions (the last may be shorter)."""
    size = -(-weights.shape[1] // bins)
    return np.add.reduceat(weights, np.arange(0, weights.shape[1], size), axis=1)


def shown(text: str, limit: int = 12) -> str:
    """A token's text as an axis label: control characters visible, long ones cut, nothing the font lacks."""
    text = text.replace("\n", "↵").replace("\t", "→").strip(" ") or "␣"
    text = "".join(c if c.isprintable() and ord(c) < 0x2E80 else "□" for c in text).replace("$", r"\$")
    return text if len(text) <= limit else text[: limit - 1] + "…"
