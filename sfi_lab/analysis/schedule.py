"""Which decode steps would be slow under other settings, replayed from the recorded tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from sfi_lab.errors import SfiError
from sfi_lab.sentences import SentenceEvent, TokenTable, segment
from sfi_lab.settings import Settings
from sfi_lab.trace import Trace
from sfi_lab.trigger.plan import Planner, StepPlan


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of every decode step of a trace.

    steps: recorded step numbers int32 [n]; lengths: cached positions at each, its own included, int32 [n]; plans: [n].
    """

    steps: np.ndarray
    lengths: np.ndarray
    plans: tuple[StepPlan, ...]

    @property
    def refreshes(self) -> list[int]:
        """Indices (not step numbers) of the steps at which the selector runs."""
        return [i for i, plan in enumerate(self.plans) if plan.refresh]

    def frame(self) -> pl.DataFrame:
        """step, route, reason, refreshed: one row a decode step."""
        return pl.DataFrame(
            {
                "step": pl.Series(self.steps, dtype=pl.Int32),
                "route": [plan.route for plan in self.plans],
                "reason": [plan.reason for plan in self.plans],
                "refreshed": [plan.refresh for plan in self.plans],
            }
        )


def events(trace: Trace, enders: str) -> list[SentenceEvent]:
    """Every recorded position as the sentence tracker sees it under these enders.

    The trace's own tokens stand for a vocabulary: bytes where they were kept (a part of a character can start a
    sentence), else texts.
    """
    texts = trace.tokens["text"].to_list()
    kept = trace.tokens["piece"].to_list()
    pieces = tuple(text.encode() if piece is None else piece for text, piece in zip(texts, kept, strict=True))
    special = frozenset(trace.tokens.with_row_index().filter(pl.col("special"))["index"].to_list())
    first = pieces[0].decode("utf-8", "replace")
    drops_first_space = first != texts[0] and first.removeprefix(" ") == texts[0]
    table = TokenTable(tuple(texts), pieces, special, frozenset(), drops_first_space)
    return segment(range(len(texts)), table, enders)


def schedule(trace: Trace, settings: Settings, tracked: list[SentenceEvent] | None = None) -> Schedule:
    """The plans that the decoder would make on the recorded tokens.

    tracked: `events(trace, settings.enders)` where the caller has them already. The drift trigger compares the queries
    of the layers that were kept (`trace.qk_layers`), of which a live run takes all.
    """
    tracked = events(trace, settings.enders) if tracked is None else tracked
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    lengths = decoded["keys_available"].to_numpy()
    drift = _Drift(trace) if settings.trigger == "drift" else None
    planner, plans = Planner(settings, selectable="full" in trace.meta["model"]["layer_kinds"]), []
    for i, length in enumerate(lengths.tolist()):
        plan = planner.next(length, tracked[length - 1], drift.now(i - 1) if drift else None)
        if drift and plan.refresh:
            drift.refreshed(i)
        plans.append(plan)
    return Schedule(decoded["step"].to_numpy(), lengths, tuple(plans))


class _Drift:
    """1 - cosine of queries to those of the last refresh, mean over kept layers and query heads."""

    def __init__(self, trace: Trace) -> None:
        if not trace.qk_layers:
            raise SfiError("the drift trigger compares queries, and this trace keeps none: record with '+qk'")
        q = torch.stack([trace.queries(layer).float() for layer in trace.qk_layers], dim=1)
        self._q = torch.nn.functional.normalize(q, dim=-1)  # [steps, layers, H_q, D]
        self._then: torch.Tensor | None = None

    def now(self, i: int) -> float | None:
        if i < 0 or self._then is None:
            return None
        return float(1.0 - (self._q[i] * self._then).sum(-1).mean())

    def refreshed(self, i: int) -> None:
        self._then = self._q[i]
