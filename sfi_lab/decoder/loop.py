"""The decode loop: read the prompt, then fast and slow steps until something ends the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfi_lab.decoder.clock import StageClock
from sfi_lab.decoder.forward import forward
from sfi_lab.decoder.read_prompt import ReadPrompt, read_chunks
from sfi_lab.decoder.recording import token_row
from sfi_lab.decoder.result import Result, Step
from sfi_lab.decoder.sampling import Sampler
from sfi_lab.decoder.state import DecoderState
from sfi_lab.decoder.streaming import TextStream
from sfi_lab.errors import SfiError
from sfi_lab.selector import STAGES
from sfi_lab.sentences import SentenceEvent
from sfi_lab.settings import Settings
from sfi_lab.trace import Recorder
from sfi_lab.trigger.plan import PROMPT, StepPlan

if TYPE_CHECKING:
    from sfi_lab.decoder.session import Session


@dataclass(slots=True)
class RunOptions:
    """What one call of generate asked for."""

    max_new_tokens: int
    eos_ids: frozenset[int]
    sampler: Sampler
    text: TextStream
    recorder: Recorder | None = None
    read: ReadPrompt | None = None  # the prompt, read before
    watch: Callable[[int, Tensor], None] | None = None  # told every step's index and logits [V]
    force: tuple[int, ...] = ()  # teacher forcing: these tokens are fed whatever the model would have picked


class Run:
    """One call of generate in progress."""

    def __init__(self, session: Session, kept: int, options: RunOptions, result: Result) -> None:
        self.session, self.lab, self.state = session, session.lab, session.state
        self.kept, self.options, self.result = kept, options, result  # kept: positions cached by earlier turns
        self.turn = session.turn
        self.recorder = options.recorder
        self.clock = StageClock(self.lab.device) if self.recorder else None
        self.shadow: DecoderState | None = None
        self.event: SentenceEvent | None = None
        self.plan: StepPlan = PROMPT
        self.index = 0
        self.remade = 0  # positions that the coming forward feeds again
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Step]:
        """Yields a Step per token; whatever ends the iteration, what was made is kept and the trace is closed."""
        try:
            with self.lab.decoding():
                self.check_turn()
                logits = self.prefill()
                while True:
                    yield self.emit(logits)
                    if self.result.stop_reason:
                        break
                    self.check_turn()
                    logits = self.step()
        except (GeneratorExit, KeyboardInterrupt):
            self.result.stop_reason = "interrupted"
            raise
        finally:
            self.close()

    def check_turn(self) -> None:
        """Raises SfiError if a later turn of the session began, whose ids and cache this run would spoil."""
        if self.turn != self.session.turn:
            raise SfiError("a later turn of this session began, so this stream can't go on; open a session for each")

    # the two kinds of forward --------------------------------------------------------------------------------------

    def prefill(self) -> Tensor:
        """Reads the prompt with dense attention, unless it was read before; logits [V] of its last position."""
        began = time.perf_counter()
        self.plan = PROMPT
        state, given = self.state, self.options.read
        state.plan, state.recorder, state.clock = PROMPT, None, None
        state.forget_selection()
        self.session.planner.reset()
        if self.clock:
            self.clock.start()
            state.track_queries()
        if given is None:
            self.remade = state.drop_fast()
            logits = read_chunks(self.lab, state, self.session.ids[state.length :])
        else:
            state.cache, state.prompt, logits = given.cache.copy(), given.facts.copy(), given.logits
        state.dense_until = state.length
        if self.recorder and self.recorder.request.audit:
            self.shadow = DecoderState(self.lab.spec.layer_kinds, Settings.dense())
            self.shadow.cache = state.cache.copy()
        if self.clock:
            self.clock.lap("model")
        self.result.prefill_seconds = time.perf_counter() - began
        return logits

    def step(self) -> Tensor:
        """One decode step, fast or slow: feeds the newest token; logits [V]."""
        began = time.perf_counter()
        logits = forward(self.lab, self.state, self.begin_step())
        self.end_step()
        self.seconds += time.perf_counter() - began
        return logits

    def begin_step(self) -> list[int]:
        """Plans the step; the ids to feed: the newest token, and before it those whose K/V are to be made anew."""
        state, session = self.state, self.session
        self.plan = session.planner.next(state.length + 1, self.event, state.drift() if session.uses_drift else None)
        state.begin(self.plan, self.index)
        state.recorder, state.clock = self.recorder, self.clock
        if self.clock:
            self.clock.start()
        self.remade = state.drop_fast() if self.plan.refresh else 0
        return session.ids[state.length :]

    def end_step(self) -> None:
        """After the step's forward."""
        self.plan = self.state.end()
        if self.clock:
            self.clock.lap("model")

    # after a forward -----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def emit(self, logits: Tensor) -> Step:
        """Picks the token, decides whether the run ends, records the step."""
        began = time.perf_counter()
        session, state = self.session, self.state
        fed = self.event
        if self.options.watch is not None:
            self.options.watch(self.index, logits)
        token, logprob = self.pick(logits)
        session.ids.append(token)
        self.event = session.tracker.push(token)
        piece = "" if token in self.options.eos_ids else self.options.text.push(token)
        self.result.stop_reason = self.ending(token)
        if self.result.stop_reason:
            piece += self.options.text.finish()
        if self.clock:
            self.clock.lap("sample")
        prompt = self.plan is PROMPT
        step = Step(
            self.index, token, piece, self.plan.route, self.plan.reason, self.event.sentence,
            0.0 if prompt else state.mean_keys_read, state.length, logprob,
            0.0 if prompt else state.keys_scored, state.bytes_kept, self.remade,
        )  # fmt: skip
        if self.recorder:
            self.record(step, logits, fed)
        self.result.steps.append(step)
        self.result.text = self.options.text.text
        self.index += 1
        if not prompt:
            self.seconds += time.perf_counter() - began
        self.result.seconds = self.seconds
        return step

    def pick(self, logits: Tensor) -> tuple[int, float]:
        """The next token - forced, greedy or drawn - and its log-probability. logits [V]."""
        force = self.options.force
        token = force[self.index] if force else self.options.sampler.pick(self.session.ids, logits)
        return token, float(logits[token].float() - logits.float().logsumexp(-1))

    def ending(self, token: int) -> str:
        """Why the run ends with this token, or ""."""
        if self.options.force:
            return "forced" if self.index + 1 == len(self.options.force) else ""
        if token in self.options.eos_ids:
            return "eos"
        if self.options.text.stopped:
            return "stop_string"
        if self.index + 1 >= self.options.max_new_tokens:
            return "max_new_tokens"
        if self.lab.spec.max_positions and self.state.length + 1 > self.lab.spec.max_positions:
            return "context"
        return ""

    # the record ----------------------------------------------------------------------------------------------------

    def record(self, step: Step, logits: Tensor, fed: SentenceEvent | None) -> None:
        """One row of the steps table, its token, and the audit beside it."""
        state, recorder, prompt = self.state, self.recorder, self.plan is PROMPT
        row: dict[str, Any] = {
            "step": step.index, "token_id": step.token_id, "text": self.event.text, "sentence": step.sentence,
            "position": state.length - 1, "query_sentence": fed.sentence if fed else self.session.prompt_sentence,
            "route": step.route, "reason": step.reason, "refreshed": self.plan.refresh,
            "keys_read": None if prompt else step.keys_read, "keys_available": step.keys_available,
            "keys_scored": None if prompt else step.keys_scored, "bytes_kept": step.bytes_kept,
            "positions_remade": step.positions_remade,
            "recent_start": None if prompt or not state.full_layers else state.recent_start(state.full_layers[0]),
            "drift": None if prompt else state.drift(), "logprob": step.logprob,
        }  # fmt: skip
        recorder.add_tokens([token_row(self.lab.tokens, state.length, step.token_id, self.event, "generated")])
        if not prompt:
            row["missed_mass"] = recorder.summarise(step.index)
            self.clock.lap("record")
            if self.shadow is not None:
                row |= self.audit(logits)
        ms = self.clock.take()
        row |= {f"ms_{name}": ms.get(name, 0.0) for name in ("model", "attention", *STAGES, "pack", "sample", "record")}
        row["ms_total"] = sum(ms.values())
        recorder.step_done(row, state.cache.full)

    def audit(self, logits: Tensor) -> dict[str, Any]:
        """The dense model on the same tokens, beside the run: KL(dense ‖ run) and whether the likeliest token agrees."""
        shadow = self.shadow
        shadow.begin(StepPlan("slow", "audit"), self.index)
        dense = forward(self.lab, shadow, [self.session.ids[-2]]).float().log_softmax(-1)
        run = logits.float().log_softmax(-1)
        self.clock.start()  # the audit's own forward is not a cost of the step
        return {
            "kl": float((dense.exp() * (dense - run)).sum().clamp_min(0.0)),
            "top1_agrees": bool(dense.argmax() == run.argmax()),
        }

    def close(self) -> None:
        """Leaves the session able to go on, and the trace finished."""
        if self.turn == self.session.turn:
            self.state.repair()
            self.state.recorder = self.state.clock = None
        self.options.text.finish()
        self.result.text = self.options.text.text
        if self.recorder:
            self.recorder.close(self.result.stop_reason or "error", self.state.cache.full, text=self.result.text)
