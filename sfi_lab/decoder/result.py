"""What a run gives back: each step while it streams, and the whole when it is done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfi_lab.settings import Settings
from sfi_lab.trace import Trace

if TYPE_CHECKING:
    from sfi_lab.decoder.session import Session


@dataclass(frozen=True, slots=True)
class Step:
    """One forward of the model, as `stream` yields it.

    index 0 is the prompt's forward. text is what this token completes (empty while a character is unfinished, and for
    special tokens). route and reason as in the trace's steps table; keys_read is a mean over layers and KV heads, as is
    keys_scored (keys looked at only to choose). bytes_kept: keys and values held after the step. positions_remade: fed
    again before the step's own so that dense attention makes their K/V anew (`rectify`); each of these queries attends to
    its whole prefix, in every layer, which keys_read (the step's own query alone) doesn't count. The row of a later turn's
    prompt has those of the turn before.
    """

    index: int
    token_id: int
    text: str
    route: str
    reason: str
    sentence: int
    keys_read: float
    keys_available: int
    logprob: float
    keys_scored: float = 0.0
    bytes_kept: int = 0
    positions_remade: int = 0


@dataclass(slots=True)
class Result:
    """A finished (or stopped) run.

    stop_reason: "eos", "stop_string", "max_new_tokens", "context" (the model's positions are used up),
        "forced" (the given tokens are used up) or "interrupted".
    seconds: wall time of the decode steps alone; prefill_seconds that of the prompt.
    """

    settings: Settings
    prompt_tokens: int
    steps: list[Step] = field(default_factory=list)
    text: str = ""
    stop_reason: str = ""
    seconds: float = 0.0
    prefill_seconds: float = 0.0
    trace_path: Path | None = None
    session: Session | None = field(default=None, repr=False)
    method: str = "sfi"

    @property
    def token_ids(self) -> list[int]:
        """Every token generated, an EOS included."""
        return [step.token_id for step in self.steps]

    @property
    def slow_steps(self) -> int:
        """Decode steps that attended to the whole prefix (the prompt's forward isn't one)."""
        return sum(step.route == "slow" for step in self.steps)

    @property
    def reasons(self) -> dict[str, int]:
        """How often each reason made a step slow."""
        return dict(Counter(step.reason for step in self.steps if step.route == "slow"))

    @property
    def keys_read_share(self) -> float | None:
        """Keys read over keys available, all decode steps together; None if nothing was decoded."""
        decoded = self.steps[1:]
        available = sum(step.keys_available for step in decoded)
        return sum(step.keys_read for step in decoded) / available if available else None

    @property
    def bytes_kept(self) -> int:
        """Bytes of keys and values held after the last step."""
        return self.steps[-1].bytes_kept if self.steps else 0

    @property
    def positions_remade(self) -> int:
        """Positions that were fed again, all steps together (0 without `rectify`)."""
        return sum(step.positions_remade for step in self.steps)

    @property
    def tokens_per_second(self) -> float | None:
        """Decode steps a second (the first token comes from the prompt's forward and isn't counted)."""
        return (len(self.steps) - 1) / self.seconds if self.seconds > 0 and len(self.steps) > 1 else None

    @property
    def trace(self) -> Trace | None:
        """The recorded trace, opened; None if nothing was recorded."""
        return Trace.open(self.trace_path) if self.trace_path else None

    def to_dict(self) -> dict[str, Any]:
        """The object that `sfi-lab generate --json` prints."""
        share, speed = self.keys_read_share, self.tokens_per_second
        return {
            "text": self.text,
            "token_ids": self.token_ids,
            "prompt_tokens": self.prompt_tokens,
            "new_tokens": len(self.steps),
            "stop_reason": self.stop_reason,
            "slow_steps": self.slow_steps,
            "reasons": self.reasons,
            "method": self.method,
            "bytes_kept": self.bytes_kept,
            "positions_remade": self.positions_remade,
            "keys_read_share": None if share is None else round(share, 6),
            "tokens_per_second": None if speed is None else round(speed, 3),
            "trace": None if self.trace_path is None else str(self.trace_path),
            "settings": self.settings.to_dict(),
        }
