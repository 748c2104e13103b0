"""One trace under one state: listens to choices, re-selects from recorded queries and keys, fills the hub.

No model is touched here. Everything for the visible layer happens at once, so that after `state.settings = …` the
arrays are those of the new settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfi_lab import Settings, Trace
from sfi_lab.errors import SfiError

from . import columns
from .columns import Ranking, Support
from .hub import Hub
from .one_core import one_core
from .state import LabState


@dataclass(frozen=True, slots=True)
class Reselection:
    """The visible layer under the current settings, for the chosen head (or the mean over heads).

    kind: "exact" (the recording's refresh steps) or "proxy" (others, on the recorded trajectory).
    ranking: selected positions, best first. It may hold more than K of each (a larger K is then only a longer prefix).
    kept: attention mass on what each step would read, float32 [steps]; NaN for the prompt's step.
    keys_read: positions each step would read, int32 [steps]; 0 for the prompt's step.
    recent_start: first position of the recent window, int32 [steps].
    lam: float32 [refreshes], the head's λ (mean over heads for the mean).
    kept_by_head: float32 [heads shown, steps], what `kept` is the mean of.
    """

    settings: Settings
    kind: str
    ranking: Ranking
    reasons: list[str]
    kept: np.ndarray
    keys_read: np.ndarray
    recent_start: np.ndarray
    lam: np.ndarray
    kept_by_head: np.ndarray

    @property
    def mean_kept(self) -> float:
        """Attention mass on what the steps would read, mean over the decode steps."""
        return float(np.nanmean(self.kept))

    @property
    def mean_keys_read(self) -> float:
        """Positions read a decode step, mean."""
        return float(self.keys_read[self.keys_read > 0].mean())


class Session:
    """Binds a trace, its state and the hub. Attributes: trace, lab (may be None), state, hub, support, recorded, now.

    `now` is the re-selection of the visible layer, or None where the layer was recorded without queries and keys;
    `why_not` then says so in a sentence.
    """

    def __init__(self, trace: Trace, lab: Any = None, state: LabState | None = None) -> None:
        self.trace, self.lab = trace, lab
        if not trace.layers:
            raise SfiError(f"{trace.path} holds no support of any layer: record with 'support' or 'support+qk'")
        steps = trace.steps
        positions = int(steps["position"].max()) + 2
        self.state = LabState(
            settings=trace.settings,
            layers=trace.layers,
            kv_heads=trace.kv_heads,
            steps=steps.height,
            positions=positions,
            recording=str(trace.path.resolve()),
        )
        self.state.kv_head = 0
        if trace.qk_layers:
            self.state.layer = trace.qk_layers[len(trace.qk_layers) // 2]
        if state is not None and state.recording == self.state.recording:
            self.state.take_over(state)
        self._position = steps["position"].to_numpy()
        self._replays: dict[int, Any] = {}
        self._baselines: dict[tuple[int, tuple[int, ...]], Reselection] = {}
        self._supports: dict[tuple[int, tuple[int, ...]], Support] = {}
        self.why_not = ""
        self.now: Reselection | None = None
        self.baseline: Reselection | None = None
        self._ranked_for: tuple[Any, ...] | None = None  # what a ranking beyond K was made for
        self.hub = Hub(
            tokens=columns.wire_tokens(trace),
            run=columns.wire_steps(trace),
            facts=self._facts(),
            brush=self.state.brush,
            span=self.state.span,
        )
        self._link()
        self._show_layer()

    # linking -------------------------------------------------------------------------------------------------------

    def _link(self) -> None:
        state, hub = self.state, self.hub
        for name in ("layer", "kv_head", "among", "cursor", "brush", "span", "probe"):
            setattr(hub, name, getattr(state, name))
            state.observe(lambda change: hub.set_trait(change["name"], change["new"]), name)
            hub.observe(lambda change: self._from_front_end(change["name"], change["new"]), name)
        state.observe(lambda _: self._show_layer(), ["layer", "kv_head", "among"])
        state.observe(lambda _: self._reselect(), "settings")

    def _from_front_end(self, name: str, value: Any) -> None:
        try:
            setattr(self.state, name, value)
        except SfiError as error:
            self.state.error = str(error)
        setattr(self.hub, name, getattr(self.state, name))  # what the state made of it, e.g. a clamped cursor

    # what the panels show ------------------------------------------------------------------------------------------

    def _show_layer(self) -> None:
        layer, heads = self.state.layer, self.state.heads
        key = (layer, heads)
        if key not in self._supports:
            self._supports[key] = columns.support(self.trace, layer, heads)
        self.support = self._supports[key]
        self.recorded = columns.recorded_ranking(self.trace, layer, heads)
        support, recorded = self.support, self.recorded
        with self.hub.hold_sync():
            self.hub.support = {
                **columns.wire_ids(support.rows, self.state.positions),
                "weights": columns.wire_weights(support.weights),
                "rest": support.rest.tobytes(),
            }
            self.hub.recorded = {
                **columns.wire_ids(columns.cut(recorded, self.room(recorded)).rows, self.state.positions),
                "steps": recorded.steps.tobytes(),
                "heads": recorded.heads,
                "k": self.trace.settings.k,
            }
            self._reselect()

    def _reselect(self) -> None:
        settings, layer, hub = self.state.settings, self.state.layer, self.hub
        with hub.hold_sync():
            hub.k = settings.k
            if layer not in self.trace.qk_layers:
                have = ", ".join(map(str, self.trace.qk_layers)) or "none (record with '+qk')"
                self.why_not = f"layer {layer} was recorded without queries and keys, so other settings can't be tried on it; layers with them: {have}"
                self.now = self.baseline = None
                hub.now, hub.mass = {}, {}
                return
            self.why_not = ""
            before = self.now
            self.baseline = self._baseline(layer)
            now = self.reselect(settings)
            if self._ranked_for == self._ranking_key() and np.array_equal(before.ranking.steps, now.ranking.steps):
                now = replace(now, ranking=before.ranking)  # only K moved: the ranking that was sent holds every prefix
            else:
                self._ranked_for = None
                hub.now = self._wire_ranking(now)
            self.now = now
            hub.mass = self._wire_mass(now, self.baseline)

    def reselect(self, settings: Settings) -> Reselection | None:
        """The visible layer and head under any settings; None where it was recorded without queries and keys."""
        if self.state.layer not in self.trace.qk_layers:
            return None
        return self._chosen_head(self._run(self.state.layer, settings), settings)

    def rank_all(self) -> None:
        """Sends the ranking beyond K, as far as a message holds it, so that moving K needs no kernel. Called when a
        person touches the K slider."""
        if self.now is None or self._ranked_for == self._ranking_key():
            return
        room = self.room(self.now.ranking)
        if room <= self.state.settings.k:
            return
        replay, settings = self.replay(self.state.layer), self.state.settings
        with one_core():
            chosen = replay.ranked(settings.with_(k=room), replay.schedule(settings))
        positions = [one.order + np.int32(settings.sink) for one in chosen.values()]
        self.now = replace(self.now, ranking=columns.ranking(self.now.ranking.steps, positions, self.state.heads, room))
        self._ranked_for = self._ranking_key()
        self.hub.now = self._wire_ranking(self.now)

    def _ranking_key(self) -> tuple[Any, ...]:
        return (self.state.layer, self.state.heads, self.state.settings.with_(k=1))

    def selected_at(self, step: int) -> np.ndarray:
        """Selected positions in force at a step, ascending: now, or as recorded where nothing can be re-selected."""
        ranking = self.now.ranking if self.now else self.recorded
        k = self.state.settings.k if self.now else self.trace.settings.k
        refresh = int(np.searchsorted(ranking.steps, step, side="right")) - 1
        return ranking.at(refresh, k) if refresh >= 0 else np.empty(0, np.int32)

    # re-selection --------------------------------------------------------------------------------------------------

    def replay(self, layer: int) -> Any:
        """The layer's replay, kept once made."""
        from sfi_lab.analysis import LayerReplay

        if layer not in self._replays:
            shared = next((replay.recording for replay in self._replays.values()), None)
            self._replays[layer] = LayerReplay(self.trace, layer, output_error=False, recording=shared)
        return self._replays[layer]

    def forget(self) -> None:
        """Lets go of the replays kept so far (tens of megabytes each); they are made again when they are needed."""
        self._replays = {}

    def _run(self, layer: int, settings: Settings) -> Any:
        with one_core():
            return self.replay(layer).run(settings, overlap=False)

    def _baseline(self, layer: int) -> Reselection:
        """The layer and heads shown under the recording's settings."""
        key = (layer, self.state.heads)
        if key not in self._baselines:
            self._baselines[key] = self._chosen_head(self._run(layer, self.trace.settings), self.trace.settings)
        return self._baselines[key]

    def _chosen_head(self, out: Any, settings: Settings) -> Reselection:
        heads, n = list(self.state.heads), self.state.steps
        refreshes = np.asarray(out.refresh_steps, np.int32)
        kept, by_head = np.full(n, np.nan, np.float32), np.full((len(heads), n), np.nan, np.float32)
        decoded = np.asarray(self.trace.decode_steps)
        by_head[:, decoded] = out.kept[:, heads].T
        kept[decoded] = out.kept[:, heads].mean(1)
        keys = np.zeros(n, np.int32)
        keys[decoded] = out.keys_read
        window = np.arange(n)
        if settings.recent_mode == "pinned" and len(refreshes):
            window = refreshes[np.clip(np.searchsorted(refreshes, window, side="right") - 1, 0, None)]
        starts = np.maximum(settings.sink, self._position[window] + 1 - settings.recent).astype(np.int32)
        ranked = columns.ranking(refreshes, out.positions, heads, 1 << 30)
        lam = np.asarray(out.lam, np.float32)[:, heads].mean(1)
        return Reselection(settings, out.kind, ranked, list(out.reasons), kept, keys, starts, lam, by_head)

    def _wire_ranking(self, now: Reselection) -> dict[str, Any]:
        return {
            **columns.wire_ids(columns.cut(now.ranking, self.room(now.ranking)).rows, self.state.positions),
            "steps": now.ranking.steps.tobytes(),
            "heads": now.ranking.heads,
            "reasons": now.reasons,
            "lam": now.lam.tobytes(),
            "kind": now.kind,
        }

    def _wire_mass(self, now: Reselection, before: Reselection) -> dict[str, Any]:
        return {
            "sink": now.settings.sink,
            "recent_start": now.recent_start.tobytes(),
            "kept": now.kept.tobytes(),
            "by_head": now.kept_by_head.tobytes() if len(now.kept_by_head) > 1 else b"",
            "shown_heads": list(self.state.heads),
            "kept_before": before.kept.tobytes(),
            "keys_read": now.keys_read.tobytes(),
            "keys_before": before.keys_read.tobytes(),
            "mean_kept": now.mean_kept,
            "mean_keys": now.mean_keys_read,
            "mean_kept_before": before.mean_kept,
            "mean_keys_before": before.mean_keys_read,
        }

    def room(self, ranking: Ranking) -> int:
        """Ids a row may carry so that the message stays within its budget."""
        size = 4 if self.state.positions > 0xFFFF else 2
        return max(1, columns.BUDGET // (size * max(1, len(ranking.rows.offsets) - 1)))

    def _facts(self) -> dict[str, Any]:
        meta, model = self.trace.meta, self.trace.meta["model"]
        decoded = self.trace.steps.filter(self.trace.steps["route"] != "prefill")
        return {
            "model": model["name"] if self.trace.method == "sfi" else f"{model['name']}, {self.trace.method}",
            "layers": self.trace.layers,
            "qk_layers": self.trace.qk_layers,
            "model_layers": model["layers"],
            "kv_heads": model["kv_heads"],
            "query_heads": model["query_heads"],
            "prompt": meta["prompt_tokens"],
            "positions": self.state.positions,
            "steps": self.state.steps,
            "slow": int((decoded["route"] == "slow").sum()),
            "decoded": decoded.height,
            "top": meta["top"],
        }
