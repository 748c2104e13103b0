"""From logits to the next token: a generation config's processors, greedy or drawn with a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList

from sfi_lab.compat import logits_processors
from sfi_lab.errors import SfiError


def generation_config(
    base: GenerationConfig, given: GenerationConfig | None, overrides: dict[str, Any]
) -> GenerationConfig:
    """The config of a run: the one given, or the model's own made greedy; then single fields such as temperature=0.7.

    Raises SfiError for a field that a generation config doesn't have.
    """
    config = GenerationConfig.from_dict((given or base).to_dict())
    if given is None:
        config.do_sample = False
    for name in overrides:
        if not hasattr(config, name):
            raise SfiError(
                f"unknown argument {name!r}: neither an argument of generate nor a field of GenerationConfig"
            )
    config.update(**overrides)
    return config


class Sampler:
    """Picks tokens from float32 scores; the same seed and scores give the same tokens."""

    def __init__(
        self,
        config: GenerationConfig,
        prompt_length: int,
        eos_ids: tuple[int, ...],
        device: torch.device,
        seed: int,
        extra: LogitsProcessorList | None = None,
    ) -> None:
        self._processors = logits_processors(config, prompt_length, eos_ids, device, handled=("stop_strings",))
        self._processors.extend(extra or [])
        self._draw = bool(config.do_sample)
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._device = device

    def pick(self, ids: list[int], logits: Tensor) -> int:
        """The next token. ids: everything so far; logits [V]."""
        scores = logits.float()[None]
        if self._processors:
            scores = self._processors(torch.tensor([ids], device=self._device), scores)
        if not self._draw:
            return int(scores[0].argmax())
        return int(torch.multinomial(torch.softmax(scores[0], dim=-1), 1, generator=self._generator))
