"""One layer of a recording under other settings: re-selected and re-weighed from its queries and keys, no model run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor

from sfi_lab.analysis.mass import Mass, attention_chunks
from sfi_lab.analysis.output_error import OutputError
from sfi_lab.analysis.recorded import Memo, Recording
from sfi_lab.analysis.schedule import Schedule
from sfi_lab.attention.decode import attention_logits
from sfi_lab.errors import SfiError
from sfi_lab.memory import recent_start
from sfi_lab.selector import Selection, choose, evidence_of, prior_of, rank_many
from sfi_lab.selector.equations import balance
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace

_KEPT_BYTES = 1 << 28  # evidence that stays between questions, and as much prior


@dataclass(slots=True)
class Replayed:
    """What one layer would have done. n decode steps, m refreshes, H_kv KV heads.

    kind: "exact" (the recorded refresh steps, the selector's settings alone changed) or "proxy" (other refresh steps,
    on a trajectory that the recorded settings made).
    """

    settings: Settings
    kind: str
    schedule: Schedule
    refresh_steps: np.ndarray  # int32 [m], recorded step numbers
    reasons: list[str]  # [m]
    positions: list[np.ndarray]  # m × int32 [H_kv, K], absolute, best first
    lam: np.ndarray  # float32 [m, H_kv]
    kept: np.ndarray  # float32 [n, H_kv]: attention mass on what the step would read, mean over the group's heads
    total: np.ndarray  # float32 [n, H_kv]: mass on all positions (1, or less where sink logits take a share)
    keys_read: np.ndarray  # int32 [n]
    overlap: np.ndarray | None = None  # float32 [m, H_kv]: Jaccard with the selection then in force as recorded, or nan
    output_error: np.ndarray | None = None  # float32 [n, H_q]: ‖o - o_dense‖ / ‖o_dense‖


class Ranked(NamedTuple):
    """One refresh in short: λ float32 [H_kv], and the selected candidates, best first, int32 [H_kv, K], 0 the oldest."""

    lam: np.ndarray
    order: np.ndarray


class LayerReplay:
    """Queries, keys and values of one recorded layer, ready to be asked.

    The first question computes the layer's attention weights at every step (float32 [H_kv, T, n]); later ones reuse
    them and every stage whose settings didn't change: λ, soft-NMS and exclusivity reuse evidence and prior, K the ranking,
    and another schedule what its refreshes have in common with an earlier one.

    recording: of another layer's replay of the same trace, for what the layers share.
    """

    def __init__(self, trace: Trace, layer: int, output_error: bool = True, recording: Recording | None = None) -> None:
        self.trace, self.layer = trace, layer
        self.recording = recording or Recording(trace)
        self._q = trace.queries(layer).float()  # [n, H_q, D]
        self._k = trace.keys(layer).float().transpose(0, 1).contiguous()  # [H_kv, T, D]
        self._v = trace.values(layer).float().transpose(0, 1).contiguous() if output_error else None
        self._window = trace.window_queries(layer)
        self._scale, self._softcap = trace.scaling(layer)
        self._sinks = trace.sink_logits(layer)
        self._norms = self._k.norm(dim=-1)
        self._lengths = trace.steps.filter(pl.col("route") != "prefill")["keys_available"].to_list()
        self._group = self._q.shape[1] // self._k.shape[0]
        self._mass: Mass | None = None
        self._weights: Tensor | None = None
        self._error: OutputError | None = None
        self._memo = {name: Memo() for name in ("around", "ranked", "kept", "error")}
        many = max(1, _KEPT_BYTES // (4 * self._norms.numel()))
        self._memo |= {name: Memo(many) for name in ("evidence", "prior", "balance")}

    # questions -----------------------------------------------------------------------------------------------------

    def run(self, settings: Settings, overlap: bool = True) -> Replayed:
        """What this layer would select, keep and read under `settings`. overlap: also compare with the recorded selections."""
        with self.recording.lock:
            return self._run(settings, overlap)

    def _run(self, settings: Settings, overlap: bool) -> Replayed:
        plan = self.schedule(settings)
        ranked = self.ranked(settings, plan)
        refreshes, heads = list(ranked), self._k.shape[0]
        refresh_steps = plan.steps[refreshes]
        positions = {i: one.order + np.int32(settings.sink) for i, one in ranked.items()}
        whole = np.array([p.dense(self.layer) for p in plan.plans])
        starts = self._starts(settings, refreshes)
        return Replayed(
            settings=settings,
            kind="exact" if self._is_exact(settings, plan) else "proxy",
            schedule=plan,
            refresh_steps=refresh_steps,
            reasons=[plan.plans[i].reason for i in refreshes],
            positions=list(positions.values()),
            lam=np.stack([one.lam for one in ranked.values()]) if ranked else np.zeros((0, heads), np.float32),
            kept=self._memo["kept"].get(settings, lambda: self._kept(settings, starts, positions, whole)),
            total=self.mass.total.numpy(),
            keys_read=self._keys_read(settings, starts, positions, whole),
            overlap=self.recording.overlap(self.layer, refresh_steps.tolist(), list(positions.values()))
            if overlap
            else None,
            output_error=None
            if self._v is None
            else self._memo["error"].get(settings, lambda: self._errors(settings, starts, positions, whole)),
        )

    def schedule(self, settings: Settings) -> Schedule:
        """Which steps would be slow."""
        return self.recording.schedule(settings)

    def ranked(self, settings: Settings, plan: Schedule | None = None) -> dict[int, Ranked]:
        """λ and ranking at each refresh of this layer, by index of the decode step: `selections` without the stages, faster."""
        with self.recording.lock:
            at = self._refreshes(plan or self.schedule(settings))
            known = self._memo["ranked"].get(_ranking_key(settings), dict)
            width = {i: min(settings.k, self._end(i, settings) - settings.sink) for i in at}
            self._rank(settings, known, [i for i in at if i not in known or known[i].order.shape[1] < width[i]])
            return {i: Ranked(known[i].lam, known[i].order[:, : width[i]]) for i in at}

    def _rank(self, settings: Settings, known: dict[int, Ranked], missing: list[int]) -> None:
        """Fills in the refreshes that were not ranked yet, or not as far down."""
        if not missing:
            return
        evidence = [self._evidence(i, settings)[0] for i in missing]
        prior = [self._prior(i, settings) for i in missing]
        lam = [self._lam(i, settings) for i in missing]
        for i, x, order in zip(missing, lam, rank_many(evidence, prior, lam, settings), strict=True):
            known[i] = Ranked(x.numpy(), order)

    def selections(self, settings: Settings, plan: Schedule | None = None) -> dict[int, Selection]:
        """Every stage of the selector at each refresh of this layer, by index of the decode step."""
        return {i: self.selection(i, settings) for i in self._refreshes(plan or self.schedule(settings))}

    def selection(self, i: int, settings: Settings) -> Selection:
        """The selector's stages if decode step `i` (an index) refreshed."""
        f, rows = self._evidence(i, settings)
        return choose(f, self._prior(i, settings), rows, settings)

    @property
    def mass(self) -> Mass:
        """Dense attention mass of every decode step, mean over each group's query heads."""
        if self._mass is None:
            self._attend(mass=True, weights=self._v is not None and self._weights is None)
        return self._mass

    @property
    def weights(self) -> Tensor:
        """Dense attention weights of every decode step, float32 [n, H_q, T]; zero beyond a step's own position."""
        if self._weights is None:
            self._attend(weights=True)
        return self._weights

    def _attend(self, mass: bool = False, weights: bool = False) -> None:
        """One pass over the steps fills what is asked for."""
        if mass:
            self._mass = Mass(self._k.shape[0], self._k.shape[1], self._lengths)
        if weights:
            self._weights = torch.zeros(*self._q.shape[:2], self._k.shape[1])
        for rows, chunk in attention_chunks(self._q, self._k, self._lengths, self._scale, self._softcap, self._sinks):
            if mass:
                self._mass.take(rows, chunk)
            if weights:
                self._weights[rows, :, : chunk.shape[-1]] = chunk.flatten(0, 1).transpose(0, 1)

    def _refreshes(self, plan: Schedule) -> list[int]:
        return [i for i in plan.refreshes if plan.plans[i].dense(self.layer)]

    # evidence, prior and λ -----------------------------------------------------------------------------------------

    def _end(self, i: int, s: Settings) -> int:
        """One after the last candidate of step i; SfiError where there is none."""
        end = recent_start(self._lengths[i], s.sink, s.recent)
        if end <= s.sink:
            raise SfiError(
                f"step {int(self.trace.decode_steps[i])} has no candidates with sink {s.sink} and recent {s.recent}"
            )
        return end

    def _evidence(self, i: int, s: Settings) -> tuple[Tensor, int]:
        def make() -> tuple[Tensor, int]:
            logits = self._logits(i, s)
            return evidence_of(logits, s), logits.shape[1]

        return self._memo["evidence"].get(_evidence_key(i, s), make)

    def _logits(self, i: int, s: Settings) -> Tensor:
        """Evidence rows of step i over J [H_kv, R, J], by the decoder's own arithmetic so that ties fall the same way."""
        length, end = self._lengths[i], self._end(i, s)
        heads = self._k.shape[0]
        q = self._q[i].view(heads, self._group, -1)
        rows = attention_logits(q, self._k[:, :length], self._scale, self._softcap)[:, :, s.sink : end]
        wanted = s.prefill_window - 1
        if i == 0 and wanted and self._window is not None:
            window = self._window[-wanted:].float().transpose(0, 1)  # [H_q, w, D]
            first = length - 1 - window.shape[1]
            window = window[:, max(0, s.sink - first) :]  # queries inside the sink see no candidate
            first, n = max(first, s.sink), window.shape[1]
            prompt = attention_logits(
                window.reshape(heads, self._group * n, -1), self._k[:, s.sink : end], self._scale, self._softcap
            )
            if end > first + 1:
                own = torch.arange(first, first + n).repeat(self._group)
                prompt = prompt.masked_fill(torch.arange(s.sink, end)[None] > own[:, None], -torch.inf)
            rows = torch.cat([prompt, rows], dim=1)
        return rows

    def _prior(self, i: int, s: Settings) -> Tensor:
        end = self._end(i, s)
        return self._memo["prior"].get((end, *_prior_key(s)), lambda: prior_of(self._norms[:, s.sink : end], s))

    def _lam(self, i: int, s: Settings) -> Tensor:
        """λ [H_kv]; the closed form before its clip is kept, since a clip is what a person moves."""
        f, rows = self._evidence(i, s)
        if s.lam != "auto":
            return f.new_full((f.shape[0],), s.lam)
        key = (_evidence_key(i, s), _prior_key(s))
        free = self._memo["balance"].get(key, lambda: balance(f, self._prior(i, s), math.inf))
        return free.clamp(0.0, s.lam_clip_for(rows))

    # what the steps read -------------------------------------------------------------------------------------------

    def _starts(self, s: Settings, refreshes: Sequence[int]) -> np.ndarray:
        """Where each step's recent window begins in this layer, int64 [n]."""
        sliding = np.maximum(s.sink, np.asarray(self._lengths) - s.recent)
        if s.recent_mode != "pinned" or not len(refreshes):
            return sliding
        last = np.searchsorted(refreshes, np.arange(len(sliding)), side="right") - 1
        return np.where(last < 0, sliding, sliding[np.asarray(refreshes)[last]])

    def _kept(self, s: Settings, starts: np.ndarray, positions: dict[int, np.ndarray], whole: np.ndarray) -> np.ndarray:
        key = (s.sink, starts.tobytes())
        kept = self._memo["around"].get(key, lambda: self.mass.around(s.sink, starts)).clone()
        self.mass.add_selected(kept, positions)
        kept[whole] = self.mass.total[whole]
        return kept.numpy()

    def _errors(
        self, s: Settings, starts: np.ndarray, positions: dict[int, np.ndarray], whole: np.ndarray
    ) -> np.ndarray:
        if self._error is None:
            self._error = OutputError(self.weights, self._v, self._lengths)
        return self._error.of(s.sink, starts, positions, whole)

    def _keys_read(
        self, s: Settings, starts: np.ndarray, positions: dict[int, np.ndarray], whole: np.ndarray
    ) -> np.ndarray:
        lengths = np.asarray(self._lengths)
        packed = np.array([0, *(p.shape[1] for p in positions.values())])
        chosen = packed[np.searchsorted(list(positions), np.arange(len(lengths)), side="right")]
        return np.where(whole, lengths, np.minimum(s.sink, lengths) + chosen + lengths - starts).astype(np.int32)

    # against the recording -----------------------------------------------------------------------------------------

    def _is_exact(self, s: Settings, plan: Schedule) -> bool:
        """The same layers refresh at the same steps, and every evidence row that these settings ask for was recorded.

        A trajectory that another method made, or that rectification would change, can only stand in for the real one.
        """
        then = self.trace.settings
        if not self.trace.slow_fast or s.rectify != then.rectify:
            return False
        wider = s.prefill_window > then.prefill_window and bool(plan.plans) and plan.plans[0].refresh
        same = self.recording.refreshed == [p.refresh for p in plan.plans]
        return same and s.layer_groups == then.layer_groups and not wider


def _evidence_key(i: int, s: Settings) -> tuple:
    return (i, s.sink, s.recent, s.alpha, s.prefill_window if i == 0 else 1)


def _prior_key(s: Settings) -> tuple:
    return (s.sink, s.gamma, s.beta, s.power, s.eta, s.norm_weight, s.position_weight)


def _ranking_key(s: Settings) -> tuple:
    """All that a ranking depends on, beside K, which only cuts it, and the step."""
    return (s.sink, s.recent, s.prefill_window, s.lam_clip, *s.selector(2).values())
