"""What all layers of a recording share in a what-if: sentence events, schedules, and the selections that the run itself made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sfi_lab.analysis.schedule import Schedule, events, schedule
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace


@dataclass(slots=True)
class Memo:
    """Results kept for what they depend on, those asked for last."""

    limit: int = 4
    items: dict = field(default_factory=dict)

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        value = self.items.pop(key) if key in self.items else make()
        if len(self.items) >= self.limit:
            del self.items[next(iter(self.items))]
        self.items[key] = value
        return value


class Recording:
    """A trace with what its layers have in common, so that thirty layers ask for it once.

    lock: held by a layer's replay while it answers, so that threads may share replays.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.lock = trace, threading.RLock()
        self.refreshed: list[bool] = trace.steps.filter(pl.col("route") != "prefill")["refreshed"].to_list()
        self._events, self._schedules = Memo(), Memo()
        self._selected: dict[int, dict[int, list[np.ndarray]]] | None = None

    def schedule(self, settings: Settings) -> Schedule:
        """Which steps would be slow."""
        key = (settings.sink, settings.recent, settings.k, settings.t_max, settings.trigger, settings.period, settings.seed,
               settings.drift_threshold, settings.enders, settings.fire_on, settings.min_gap, settings.cooldown,
               settings.layer_groups)  # fmt: skip
        tracked = self._events.get(settings.enders, lambda: events(self.trace, settings.enders))
        return self._schedules.get(key, lambda: schedule(self.trace, settings, tracked))

    def selected(self, layer: int) -> dict[int, list[np.ndarray]]:
        """The run's own selections of a layer: by step, ascending, H_kv × int32 [K], absolute."""
        if self._selected is None:
            frame = self.trace.selection.filter(pl.col("layer").is_in(self.trace.qk_layers)).collect()
            found: dict[int, dict[int, list[np.ndarray]]] = {}
            for at, step, positions in (
                frame.sort("layer", "step", "kv_head").select("layer", "step", "positions").iter_rows()
            ):
                found.setdefault(at, {}).setdefault(step, []).append(np.asarray(positions, np.int32))
            self._selected = found
        return self._selected.get(layer, {})

    def overlap(self, layer: int, steps: Sequence[int], positions: Sequence[np.ndarray]) -> np.ndarray:
        """Jaccard of each selection (int [H_kv, K], made at its step) with the run's own then in force.

        float32 [m, H_kv], nan where none was in force.
        """
        own = self.selected(layer)
        made = np.array(list(own), np.int64)
        found = np.full((len(positions), self.trace.kv_heads), np.nan, np.float32)
        for row, step, chosen in zip(found, steps, positions, strict=True):
            then = int(np.searchsorted(made, step, side="right")) - 1
            if then >= 0:
                row[:] = [_jaccard(a, b) for a, b in zip(chosen, own[int(made[then])], strict=True)]
        return found


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common) if len(a) + len(b) else 1.0
