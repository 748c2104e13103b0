"""What-if over many layers: a recorded run under other settings, as polars frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfi_lab.analysis.recorded import Recording
from sfi_lab.analysis.replay import LayerReplay, Replayed
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A recorded run under other settings.

    kind: "exact" (re-selection on recorded evidence at the recorded refresh steps) or "proxy" (other refresh steps on
    a trajectory that the recorded settings made; only a re-run knows what would really have followed).

    refreshes: step, route, reason, refreshed - one row a decode step.
    selection: step, layer, kv_head, lam, candidates, overlap (Jaccard with the recorded selection in force), positions
        (best first).
    steps: step, layer, kv_head, keys_read, kept (attention mass on what is read, mean over the group's query heads),
        missed (the rest of the mass), output_error (‖o - o_dense‖ / ‖o_dense‖, mean over the group's query heads).
    """

    settings: Settings
    kind: str
    layers: tuple[int, ...]
    refreshes: pl.DataFrame
    selection: pl.DataFrame
    steps: pl.DataFrame

    @property
    def summary(self) -> dict[str, float | int | str | None]:
        """Means over the decode steps, the layers asked for and their KV heads."""
        fast = self.steps.join(self.refreshes.select("step", "route"), on="step").filter(pl.col("route") == "fast")
        return {
            "kind": self.kind,
            "refreshes": int(self.refreshes["refreshed"].sum()),
            "fast_steps": int((self.refreshes["route"] == "fast").sum()),
            "keys_read": _mean(self.steps["keys_read"]),
            "kept": _mean(self.steps["kept"]),
            "kept_fast": _mean(fast["kept"]),
            "missed": _mean(self.steps["missed"]),
            "output_error": _mean(self.steps["output_error"]),
            "overlap": _mean(self.selection["overlap"].drop_nans()),
        }


def whatif(
    trace: Trace,
    settings: Settings,
    layers: Sequence[int] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    output_error: bool = True,
    replays: dict[int, LayerReplay] | None = None,
) -> WhatIf:
    """Re-selects a recorded run under `settings`.

    Args:
        trace: recorded with "+qk".
        layers: of `trace.qk_layers`; all of them by default.
        progress: called with (layers done, layers in all). cancel: asked before each layer; True stops with SfiError.
        output_error: also the error of each layer's attention output (needs values; slower).
        replays: layers kept from call to call, filled here; each holds float32 [H_kv, positions, steps] (with
            `output_error` also [steps, H_q, positions]) and makes the next question about the trace an order of
            magnitude faster. All of one `output_error`.

    Raises SfiError for layers without recorded queries and keys, or when cancelled.
    """
    chosen = list(trace.qk_layers if layers is None else layers)
    if not chosen:
        raise SfiError(f"{trace.path} keeps no queries and keys; record with '+qk'")
    replayed: dict[int, Replayed] = {}
    recording = next((replay.recording for replay in (replays or {}).values()), None) or Recording(trace)
    for done, layer in enumerate(chosen):
        if cancel is not None and cancel():
            raise SfiError(f"what-if was cancelled after {done} of {len(chosen)} layers")
        replay = None if replays is None else replays.get(layer)
        if replay is None:
            replay = LayerReplay(trace, layer, output_error, recording)
        if replays is not None:
            replays[layer] = replay
        replayed[layer] = replay.run(settings)
        if progress is not None:
            progress(done + 1, len(chosen))
    first = replayed[chosen[0]]
    return WhatIf(
        settings=settings,
        kind=first.kind,
        layers=tuple(chosen),
        refreshes=first.schedule.frame(),
        selection=pl.concat([selection_frame(layer, r) for layer, r in replayed.items()]),
        steps=pl.concat([steps_frame(layer, r) for layer, r in replayed.items()]),
    )


def selection_frame(layer: int, replayed: Replayed) -> pl.DataFrame:
    """One row a refresh and KV head of one layer."""
    m, heads = replayed.lam.shape
    s = replayed.settings
    lengths = dict(zip(replayed.schedule.steps.tolist(), replayed.schedule.lengths.tolist(), strict=True))
    candidates = [max(0, lengths[step] - s.recent - s.sink) for step in replayed.refresh_steps.tolist()]
    return pl.DataFrame(
        {
            "step": pl.Series(np.repeat(replayed.refresh_steps, heads), dtype=pl.Int32),
            "layer": pl.Series([layer] * m * heads, dtype=pl.Int16),
            "kv_head": pl.Series(np.tile(np.arange(heads), m), dtype=pl.Int16),
            "lam": pl.Series(replayed.lam.reshape(-1), dtype=pl.Float32),
            "candidates": pl.Series(np.repeat(np.asarray(candidates, np.int32), heads), dtype=pl.Int32),
            "overlap": pl.Series(replayed.overlap.reshape(-1), dtype=pl.Float32),
            "positions": pl.Series(
                "positions",
                [row.tolist() for positions in replayed.positions for row in positions],
                dtype=pl.List(pl.Int32),
            ),
        }
    )


def steps_frame(layer: int, replayed: Replayed) -> pl.DataFrame:
    """One row a decode step and KV head of one layer."""
    n, heads = replayed.kept.shape
    error = replayed.output_error
    by_head = (
        np.full(n * heads, np.nan, np.float32) if error is None else error.reshape(n, heads, -1).mean(-1).reshape(-1)
    )
    return pl.DataFrame(
        {
            "step": pl.Series(np.repeat(replayed.schedule.steps, heads), dtype=pl.Int32),
            "layer": pl.Series(np.full(n * heads, layer), dtype=pl.Int16),
            "kv_head": pl.Series(np.tile(np.arange(heads), n), dtype=pl.Int16),
            "keys_read": pl.Series(np.repeat(replayed.keys_read, heads), dtype=pl.Int32),
            "kept": pl.Series(replayed.kept.reshape(-1), dtype=pl.Float32),
            "missed": pl.Series((replayed.total - replayed.kept).clip(0).reshape(-1), dtype=pl.Float32),
            "output_error": pl.Series(by_head, dtype=pl.Float32).fill_nan(None),
        }
    )


def _mean(series: pl.Series) -> float | None:
    mean = series.drop_nulls().mean()
    return None if mean is None else round(float(mean), 6)
