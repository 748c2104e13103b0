"""What-if results in the form that figures and tables compare: one value a unit, so that differences are paired.

A unit is a sentence of the generated text where one trace is given, a whole text where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfi_lab.analysis.statistics import Estimate, bootstrap_mean, paired_difference
from sfi_lab.analysis.supports import supports
from sfi_lab.figures.material import Material
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace


@dataclass(frozen=True, slots=True)
class Reselected:
    """Means by unit over steps, layers and KV heads. kept: attention mass on what is read; error: of the attention output
    (relative, nan where it wasn't asked); keys: read a step. kind: "exact" or "proxy"; refreshes: of all texts."""

    kept: np.ndarray
    error: np.ndarray
    keys: np.ndarray
    kind: str
    refreshes: int


Change = Callable[[Settings], Settings]


def reselected(
    material: Material, traces: Sequence[Trace], change: Change, fast_only: bool = True, error: bool = True
) -> Reselected:
    """The traces under `change(their settings)`. fast_only: only steps that the change and the recording both make fast."""
    parts = [_one(material, trace, change(trace.settings), fast_only, error) for trace in traces]
    if len(parts) == 1:
        return parts[0]
    kinds = {part.kind for part in parts}
    means = [np.array([getattr(part, name).mean() for part in parts]) for name in ("kept", "error", "keys")]
    return Reselected(*means, "proxy" if "proxy" in kinds else "exact", sum(part.refreshes for part in parts))


def _one(material: Material, trace: Trace, settings: Settings, fast_only: bool, error: bool) -> Reselected:
    runs = [material.replay(trace, layer, error).run(settings) for layer in trace.qk_layers]
    units, chosen = _units(trace)
    if fast_only:
        chosen = chosen & ~np.array([plan.dense(trace.qk_layers[0]) for plan in runs[0].schedule.plans])
    kept = np.mean([run.kept.mean(1) for run in runs], axis=0)
    errors = np.mean([run.output_error.mean(1) for run in runs], axis=0) if error else np.full(len(kept), np.nan)
    keys = np.mean([run.keys_read for run in runs], axis=0)
    chosen_units = chosen if fast_only else np.ones(len(kept), bool)
    means = (_by_unit(x, units, chosen_units) for x in (kept, errors, keys))
    return Reselected(*means, runs[0].kind, len(runs[0].refresh_steps))


def bounds(material: Material, traces: Sequence[Trace], k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mass kept by sink and recent alone, and by an oracle that picks the K best candidates of every step; by unit."""
    alone, oracle = [], []
    for trace in traces:
        a, o = material.keep(("bounds", trace.path, k), lambda trace=trace: _bounds(trace, k or trace.settings.k))
        alone.append(a if len(traces) == 1 else a.mean(keepdims=True))
        oracle.append(o if len(traces) == 1 else o.mean(keepdims=True))
    return np.concatenate(alone), np.concatenate(oracle)


def _bounds(trace: Trace, k: int) -> tuple[np.ndarray, np.ndarray]:
    found = supports(trace, trace.qk_layers, source="qk", among="candidates", top=k)
    units, fast = _units(trace)
    left = 1 - found.total.mean(1)  # mean over layers and heads
    best = left + found.weights.sum(-1).mean(1)
    return _by_unit(left, units, fast), _by_unit(best, units, fast)


def _units(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Sentence of each decode step's query, and whether the recording made the step fast."""
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    return decoded["query_sentence"].to_numpy(), (decoded["route"] == "fast").to_numpy()


def _by_unit(values: np.ndarray, units: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Means of the chosen steps by unit; units without any are left out (the same ones for every setting)."""
    return np.array([values[chosen & (units == unit)].mean() for unit in np.unique(units[chosen])])


def unit_word(traces: Sequence[Trace]) -> str:
    """What the intervals are taken over."""
    return "sentences of one text" if len(traces) == 1 else "texts"


def level(values: np.ndarray) -> Estimate:
    """Mean over units with a 95 % bootstrap interval."""
    return bootstrap_mean(values)


def difference(values: np.ndarray, base: np.ndarray) -> Estimate:
    """Mean of paired differences with a 95 % bootstrap interval and a sign-flip p."""
    return paired_difference(values, base)
