"""One layer of a recording under other settings: re-selected and re-weighed from its queries and keys, no model run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch
from torch import Tensor

from sfi_lab.analysis.schedule import Schedule, events, schedule
from sfi_lab.attention.decode import attention_logits, attention_weights
from sfi_lab.errors import SfiError
from sfi_lab.memory import recent_start
from sfi_lab.selector import Selection, choose, evidence_of, prior_of
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace

_CHUNK = 64  # decode steps whose weights are computed together


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
    overlap: (
        np.ndarray
    )  # float32 [m, H_kv]: Jaccard with the selection in force in the recording; nan where there was none
    output_error: np.ndarray | None = None  # float32 [n, H_q]: ‖o - o_dense‖ / ‖o_dense‖


@dataclass(slots=True)
class _Memo:
    """Results kept for the settings they depend on, the newest few."""

    limit: int = 4
    items: dict = field(default_factory=dict)

    def get(self, key, make):
        if key not in self.items:
            if len(self.items) >= self.limit:
                del self.items[next(iter(self.items))]
            self.items[key] = make()
        return self.items[key]


class LayerReplay:
    """Queries, keys and values of one recorded layer, ready to be asked.

    The first question computes the layer's attention weights at every step (float32 [n, H_q, T]); later ones reuse
    them and every stage whose settings didn't change.
    """

    def __init__(self, trace: Trace, layer: int, output_error: bool = True) -> None:
        self.trace, self.layer = trace, layer
        self._q = trace.queries(layer).float()  # [n, H_q, D]
        self._k = trace.keys(layer).float().transpose(0, 1).contiguous()  # [H_kv, T, D]
        self._v = trace.values(layer).float().transpose(0, 1).contiguous() if output_error else None
        self._window = trace.window_queries(layer)
        self._scale, self._softcap = trace.scaling(layer)
        self._sinks = trace.sink_logits(layer)
        self._norms = self._k.norm(dim=-1)
        self._lengths = trace.steps.filter(pl.col("route") != "prefill")["keys_available"].to_list()
        self._group = self._q.shape[1] // self._k.shape[0]
        self._weights: Tensor | None = None
        self._memo = {name: _Memo() for name in ("events", "schedule", "base", "chosen", "read")}
        self._f: dict[tuple, tuple[Tensor, int]] = {}
        self._r: dict[tuple, Tensor] = {}
        self._recorded: dict[int, Tensor] | None = None

    # questions -----------------------------------------------------------------------------------------------------

    def run(self, settings: Settings) -> Replayed:
        """What this layer would select, keep and read under `settings`."""
        plan = self.schedule(settings)
        selections = self.selections(settings, plan)
        kept, total, error = self._memo["read"].get(settings, lambda: self._read(settings, plan, selections))
        refreshes = list(selections)
        return Replayed(
            settings=settings,
            kind="exact" if self._is_exact(settings, plan) else "proxy",
            schedule=plan,
            refresh_steps=plan.steps[refreshes],
            reasons=[plan.plans[i].reason for i in refreshes],
            positions=[(s.ranked + settings.sink).to(torch.int32).numpy() for s in selections.values()],
            lam=torch.stack([s.lam for s in selections.values()]).numpy()
            if selections
            else np.zeros((0, self._k.shape[0]), np.float32),
            kept=kept,
            total=total,
            keys_read=self._keys_read(settings, plan, selections),
            overlap=self._overlap(settings, plan, selections),
            output_error=error,
        )

    def schedule(self, settings: Settings) -> Schedule:
        """Which steps would be slow."""
        key = (settings.sink, settings.recent, settings.k, settings.t_max, settings.trigger, settings.period, settings.seed,
               settings.drift_threshold, settings.enders, settings.fire_on, settings.min_gap, settings.cooldown,
               settings.layer_groups)  # fmt: skip
        tracked = self._memo["events"].get(settings.enders, lambda: events(self.trace, settings.enders))
        return self._memo["schedule"].get(key, lambda: schedule(self.trace, settings, tracked))

    def selections(self, settings: Settings, plan: Schedule | None = None) -> dict[int, Selection]:
        """Every stage of the selector at each refresh of this layer, by index of the decode step."""
        plan = plan or self.schedule(settings)
        at = [i for i in plan.refreshes if plan.plans[i].dense(self.layer)]
        return {i: self.selection(i, settings) for i in at}

    def selection(self, i: int, settings: Settings) -> Selection:
        """The selector's stages if decode step `i` (an index) refreshed."""
        f, rows = self._evidence(i, settings)
        return choose(f, self._prior(i, settings), rows, settings)

    @property
    def weights(self) -> Tensor:
        """Dense attention weights of every decode step, float32 [n, H_q, T]; zero beyond a step's own position."""
        if self._weights is None:
            self._weights = self._attention()
        return self._weights

    # evidence and prior --------------------------------------------------------------------------------------------

    def _evidence(self, i: int, s: Settings) -> tuple[Tensor, int]:
        window = s.prefill_window if i == 0 else 1
        key = (i, s.sink, s.recent, s.alpha, window)
        if key not in self._f:
            if len(self._f) > 4 * len(self._lengths):
                self._f.clear()
            logits = self._logits(i, s)
            self._f[key] = evidence_of(logits, s), logits.shape[1]
        return self._f[key]

    def _logits(self, i: int, s: Settings) -> Tensor:
        """Evidence rows of step i over J [H_kv, R, J], by the decoder's own arithmetic so that ties fall the same way."""
        length = self._lengths[i]
        end = recent_start(length, s.sink, s.recent)
        if end <= s.sink:
            raise SfiError(
                f"step {int(self.trace.decode_steps[i])} has no candidates with sink {s.sink} and recent {s.recent}"
            )
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
        end = recent_start(self._lengths[i], s.sink, s.recent)
        key = (end, s.sink, s.gamma, s.beta, s.power, s.eta, s.norm_weight, s.position_weight)
        if key not in self._r:
            if len(self._r) > 4 * len(self._lengths):
                self._r.clear()
            self._r[key] = prior_of(self._norms[:, s.sink : end], s)
        return self._r[key]

    # what the steps read -------------------------------------------------------------------------------------------

    def _attention(self) -> Tensor:
        n, heads, _ = self._q.shape
        kv_heads, total, _ = self._k.shape
        weights = torch.zeros(n, heads, total)
        for start in range(0, n, _CHUNK):
            rows = self._q[start : start + _CHUNK]
            m, length = rows.shape[0], self._lengths[min(start + _CHUNK, n) - 1]
            q = rows.transpose(0, 1).reshape(kv_heads, self._group * m, -1)
            logits = attention_logits(q, self._k[:, :length], self._scale, self._softcap).view(heads, m, length)
            own = torch.tensor(self._lengths[start : start + m])
            logits.masked_fill_(torch.arange(length)[None] >= own[:, None], -torch.inf)
            sinks = None if self._sinks is None else self._sinks[:, None].expand(heads, m)
            weights[start : start + m, :, :length] = attention_weights(logits, sinks).transpose(0, 1)
        return weights

    def _base(self, s: Settings, plan: Schedule) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """Mass [n, H_q] and weighted values [n, H_q, D] of sink and recent, the dense output, and each window's start."""
        starts = self._starts(s, plan)
        weights, n = self.weights, len(self._lengths)
        mass = weights[:, :, : s.sink].sum(-1)
        out = self._values(weights[:, :, : s.sink], slice(0, s.sink)) if self._v is not None else None
        for begin in range(0, n, _CHUNK):
            rows = slice(begin, min(begin + _CHUNK, n))
            low, high = min(starts[rows]), self._lengths[rows.stop - 1]
            inside = torch.arange(low, high)[None] >= torch.tensor(starts[rows])[:, None]
            part = weights[rows, :, low:high] * inside[:, None]
            mass[rows] += part.sum(-1)
            if out is not None:
                out[rows] += self._values(part, slice(low, high))
        return mass, out, starts

    def _values(self, weights: Tensor, span: slice) -> Tensor:
        """weights [m, H_q, P] times the values of `span` -> [m, H_q, D_v]."""
        m, heads, _ = weights.shape
        grouped = weights.view(m, heads // self._group, self._group, -1 if weights.numel() else 0)
        out = torch.matmul(grouped.permute(1, 0, 2, 3).flatten(1, 2), self._v[:, span])
        return out.view(-1, m, self._group, out.shape[-1]).permute(1, 0, 2, 3).reshape(m, heads, -1)

    def _read(self, s: Settings, plan: Schedule, selections: dict[int, Selection]) -> tuple:
        weights, kv_heads = self.weights, self._k.shape[0]
        n, heads, _ = weights.shape
        pinned = tuple(selections) if s.recent_mode == "pinned" else None  # this layer's own refreshes
        mass, out, _ = self._memo["base"].get((s.sink, s.recent, pinned), lambda: self._base(s, plan))
        mass = mass.clone()
        dense = self._memo["base"].get(
            "dense",
            lambda: (self.weights.sum(-1), None if self._v is None else self._values(self.weights, slice(None))),
        )
        total, dense_out = dense
        numerator = None if out is None else out.clone()
        marks = [*selections, n]
        for i, until in itertools.pairwise(marks):
            rows = slice(i, until)
            index = (selections[i].indices + s.sink)[:, None, None].expand(-1, until - i, self._group, -1)
            part = torch.gather(weights[rows].view(until - i, kv_heads, self._group, -1).transpose(0, 1), 3, index)
            mass[rows] += part.sum(-1).transpose(0, 1).reshape(until - i, heads)
            if numerator is not None:
                v = self._v[torch.arange(kv_heads)[:, None], selections[i].indices + s.sink]
                add = torch.matmul(part.flatten(1, 2), v).view(kv_heads, until - i, self._group, -1)
                numerator[rows] += add.transpose(0, 1).reshape(until - i, heads, -1)
        whole = torch.tensor([p.dense(self.layer) for p in plan.plans])
        mass[whole] = total[whole]
        error = None
        if numerator is not None:
            # sink logits, where a model has them, keep their share of the denominator on both sides
            rest = 1.0 - total
            sparse_out = numerator / (mass + rest).clamp_min(1e-12)[..., None]
            error = (sparse_out - dense_out).norm(dim=-1) / dense_out.norm(dim=-1).clamp_min(1e-12)
            error[whole] = 0.0
            error = error.numpy()
        return self._by_kv_head(mass), self._by_kv_head(total), error

    def _by_kv_head(self, x: Tensor) -> np.ndarray:
        return x.view(x.shape[0], -1, self._group).mean(-1).numpy()

    def _starts(self, s: Settings, plan: Schedule) -> list[int]:
        """Where each step's recent window begins in this layer."""
        starts, pinned = [], None
        for length, p in zip(self._lengths, plan.plans, strict=True):
            sliding = recent_start(length, s.sink, s.recent)
            if p.refresh and p.dense(self.layer):
                pinned = sliding
            starts.append(pinned if s.recent_mode == "pinned" and pinned is not None else sliding)
        return starts

    def _keys_read(self, s: Settings, plan: Schedule, selections: dict[int, Selection]) -> np.ndarray:
        read, packed = [], 0
        for i, (length, start) in enumerate(zip(self._lengths, self._starts(s, plan), strict=True)):
            if i in selections:
                packed = selections[i].indices.shape[1]
            read.append(length if plan.plans[i].dense(self.layer) else min(s.sink, length) + packed + length - start)
        return np.asarray(read, np.int32)

    # against the recording -----------------------------------------------------------------------------------------

    def _is_exact(self, s: Settings, plan: Schedule) -> bool:
        """The same layers refresh at the same steps, and every evidence row that these settings ask for was recorded."""
        recorded, then = (
            self.trace.steps.filter(pl.col("route") != "prefill")["refreshed"].to_list(),
            self.trace.settings,
        )
        wider = s.prefill_window > then.prefill_window and bool(plan.plans) and plan.plans[0].refresh
        return recorded == [p.refresh for p in plan.plans] and s.layer_groups == then.layer_groups and not wider

    def _overlap(self, s: Settings, plan: Schedule, selections: dict[int, Selection]) -> np.ndarray:
        """Jaccard of each refresh's selection with the one in force in the recording at that step."""
        recorded = self._recorded_selections()
        rows = []
        for i, selection in selections.items():
            step = int(plan.steps[i])
            then = max((r for r in recorded if r <= step), default=None)
            if then is None:
                rows.append([np.nan] * self._k.shape[0])
                continue
            rows.append(
                [_jaccard(a, b) for a, b in zip((selection.indices + s.sink).numpy(), recorded[then], strict=True)]
            )
        return np.asarray(rows, np.float32).reshape(len(rows), self._k.shape[0])

    def _recorded_selections(self) -> dict[int, list[np.ndarray]]:
        if self._recorded is None:
            frame = self.trace.selection.filter(pl.col("layer") == self.layer).sort("step", "kv_head").collect()
            self._recorded = {}
            for step, positions in frame.select("step", "positions").iter_rows():
                self._recorded.setdefault(step, []).append(np.asarray(positions))
        return self._recorded


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common) if len(a) + len(b) else 1.0
