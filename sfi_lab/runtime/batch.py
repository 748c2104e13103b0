"""What a batch gives back, and the steps that can be known before it is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sfi_lab.errors import SfiError
from sfi_lab.runtime.state import REASONS, TRIGGER
from sfi_lab.settings import Settings


@dataclass
class BatchResult:
    """What `Engine.generate` gives back, sequence by sequence.

    reasons: of each token's forward, "" for fast ones; the first token's is "prompt". seconds: of the decode steps.
    """

    tokens: list[list[int]] = field(default_factory=list)
    reasons: list[list[str]] = field(default_factory=list)
    seconds: float = 0.0
    prefill_seconds: float = 0.0
    steps: int = 0

    @classmethod
    def of(
        cls, history: list[list[list[int]]], eos: set[int], trigger: str, prefill_seconds: float, seconds: float
    ) -> BatchResult:
        """From the device's history, [tokens made, reasons of their steps] a step; each sequence is cut behind its EOS."""
        result = cls(seconds=seconds, prefill_seconds=prefill_seconds, steps=len(history) - 1)
        for b in range(len(history[0][0])):
            tokens = [step[0][b] for step in history]
            end = next((i + 1 for i, token in enumerate(tokens) if token in eos), len(tokens))
            result.tokens.append(tokens[:end])
            names = [trigger if step[1][b] == TRIGGER else REASONS[step[1][b]] for step in history[:end]]
            result.reasons.append(["prompt", *names[1:]])
        return result


def fixed_schedule(settings: Settings) -> Iterator[str]:
    """The kinds of all steps where text decides nothing (trigger "period" or "never") and there is always something to
    select: the host needs no flags. The first step, which may carry the prompt's window, counts as slow."""
    if settings.trigger not in ("period", "never"):
        raise SfiError(f"the steps of trigger {settings.trigger!r} aren't known before decoding")
    ends = [
        every
        for every in (settings.period * (settings.trigger == "period"), settings.t_max and settings.t_max + 1)
        if every
    ]
    every = min(ends, default=0)
    step = 0
    while True:
        yield "slow" if step == 0 or (every and step % every == 0) else "fast"
        step += 1
