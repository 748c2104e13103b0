"""A session's run through the engine: the same steps, results and endings as the reference loop's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfi_lab.decoder.loop import Run, RunOptions
from sfi_lab.memory import recent_start
from sfi_lab.runtime.engine import Engine, EngineOptions
from sfi_lab.runtime.pool import move_in
from sfi_lab.runtime.state import FIELDS, FIRST, NOTHING, TRIGGER
from sfi_lab.settings import Settings
from sfi_lab.trigger.plan import NOTHING_TO_SELECT, PROMPT, StepPlan

if TYPE_CHECKING:
    from sfi_lab.decoder.result import Result
    from sfi_lab.decoder.session import Session


class GraphRun(Run):
    """One call of generate on the engine.

    The routes come from the session's own Planner, which reads the text (`SentenceTracker`), so every step is slow or
    fast exactly where the reference's is; the price is that a step is queued when the token before it is known.
    """

    def __init__(self, session: Session, kept: int, options: RunOptions, result: Result) -> None:
        super().__init__(session, kept, options, result)
        self.engine: Engine | None = None  # taken when the run begins: one that is never iterated holds none
        self._on_device = options.sampler.is_greedy and not options.force
        self._pinned_start = 0

    def _take_engine(self) -> Engine:
        session, limit = self.session, self.lab.spec.max_positions
        length = len(session.ids) + self.options.max_new_tokens
        engine = self.lab.engines.take(
            session, self.lab, session.settings, min(length, limit or length), EngineOptions()
        )
        move_in(session, engine)
        self.kept = min(self.kept, engine.lengths[0])
        self.state = _EngineState(engine)
        return engine

    def prefill(self) -> Tensor:
        """Reads the prompt in chunks; logits [V] of its last position."""
        began = time.perf_counter()
        self.plan = PROMPT
        self.session.planner.reset()
        with self.lab.attending():
            self.engine = self._take_engine()
            logits = self.engine.read(0, self.session.ids[self.kept :], self.kept)
            self.engine.start(logits[None])
            self.engine.wait()
        self.result.prefill_seconds = time.perf_counter() - began
        return logits

    def step(self) -> Tensor:
        """Queues one step; logits [V], which `pick` waits for."""
        began = time.perf_counter()
        engine, settings = self.engine, self.session.settings
        length = engine.lengths[0] + 1
        self.plan = plan = self.session.planner.next(length, self.event)
        sliding = recent_start(length, settings.sink, settings.recent)
        if plan.refresh:
            self._pinned_start = sliding
        start = self._pinned_start if settings.recent_mode == "pinned" and plan.route == "fast" else sliding
        engine.state.upload(route_table(plan, length, start, settings))
        kind = "fast" if plan.route == "fast" else "slow" if plan.refresh else "dense"
        with self.lab.attending():
            logits = engine.step(kind, plan.group)[0]
        self.state.mean_keys_read = keys_read(plan, length, start, engine)
        self.seconds += time.perf_counter() - began
        return logits

    def pick(self, logits: Tensor) -> tuple[int, float]:
        """The token the device took where it may (greedy, nothing that changes scores); else as the reference picks."""
        if self._on_device:
            self.engine.wait()
            report = self.engine.state.host
            return int(report.tokens[0]), float(report.logprobs[0])
        token, logprob = super().pick(logits)
        self.engine.state.tokens.fill_(token)
        return token, logprob

    def close(self) -> None:
        """The engine stays with the session for its next turn, unless another session needs it."""
        if self.engine is not None:
            self.engine.wait()
            self.lab.engines.give_back(self.session)
        super().close()


class _EngineState:
    """What the loop asks a sequence's state for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.mean_keys_read = 0.0
        self.keys_scored = 0.0
        self.recorder: Any = None
        self.clock: Any = None

    @property
    def length(self) -> int:
        """Positions cached."""
        return self._engine.lengths[0]

    @property
    def bytes_kept(self) -> int:
        """Bytes of keys and values of the sequence: its pages, and the packed memories."""
        plan = self._engine.plan
        return (self.length + plan.rows) * plan.layers * plan.kv_heads * 2 * plan.dim * plan.element_size

    def repair(self) -> None:
        """Nothing to repair: what an interrupted forward wrote lies behind the length."""


def route_table(plan: StepPlan, length: int, start: int, settings: Settings) -> Tensor:
    """The engine's table for one sequence's coming step, as the host has decided it. -> int32 [len(FIELDS), 1]."""
    dense, select = plan.route == "slow", plan.refresh
    reason = NOTHING if plan is NOTHING_TO_SELECT else FIRST if plan.reason == "first" else TRIGGER if dense else 0
    values = {
        "length": length, "position": length - 1, "recent_start": start, "route": int(dense), "active": int(select),
        "candidates": start - settings.sink if select else 0, "reason": reason,
    }  # fmt: skip
    return torch.tensor([[values.get(name, 0)] for name in FIELDS], dtype=torch.int32)


def keys_read(plan: StepPlan, length: int, start: int, engine: Engine) -> float:
    """Keys a step reads, mean over layers; every head reads as many."""
    if plan.route != "fast" and plan.group is None:
        return float(length)
    few = engine.plan.rows + length - start
    layers = engine.plan.layers
    dense = sum(plan.dense(layer) for layer in range(layers))
    return (dense * length + (layers - dense) * few) / layers
