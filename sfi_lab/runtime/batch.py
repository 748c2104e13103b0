"""What a batch gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfi_lab.runtime.state import REASONS, TRIGGER


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
