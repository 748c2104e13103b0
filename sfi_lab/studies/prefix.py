"""One prompt read once, many runs from there: free ones, and ones that are fed given tokens instead of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from sfi_lab.decoder import Result
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass
class Prefix:
    """A prompt's ids; it is read when the first run asks for it. window: last queries kept, for the first refresh."""

    lab: Lab
    ids: list[int]
    window: int = 64

    @cached_property
    def read(self) -> ReadPrompt:
        """The prompt, read once with dense attention."""
        return ReadPrompt.read(self.lab, self.ids, self.window)

    def forced(
        self, settings: Settings, tokens: Sequence[int], keep_logits: bool = True, **recording: Any
    ) -> tuple[Result, Tensor | None]:
        """Teacher-forced: feeds `tokens`; the result, and logits float32 [len(tokens), V] in the model's own distribution."""
        rows: list[Tensor] = []
        watch = (lambda _step, logits: rows.append(logits.float().cpu().clone())) if keep_logits else None
        result = self.lab.generate(
            self.read, settings, len(tokens), force=tokens, watch=watch, progress=False,
            generation_config=GenerationConfig(do_sample=False), **recording,
        )  # fmt: skip
        return result, torch.stack(rows) if keep_logits else None

    def free(
        self,
        settings: Settings,
        n: int,
        temperature: float = 0.0,
        seed: int = 0,
        ignore_eos: bool = True,
        **recording: Any,
    ) -> Result:
        """Free-running, greedy or drawn at a temperature."""
        drawn = (
            {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 0.95}
            if temperature
            else {"do_sample": False}
        )
        return self.lab.generate(
            self.read, settings, n, progress=False, generation_config=GenerationConfig(**drawn), seed=seed,
            ignore_eos=ignore_eos, **recording,
        )  # fmt: skip
