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

    Raises SfiError for a field that a generation config doesn't have, or one of sampling where nothing is sampled.
    """
    config = GenerationConfig.from_dict((given or base).to_dict())
    if given is None:
        config.do_sample = False
    for name in overrides:
        if name.startswith("_") or not hasattr(config, name) or callable(getattr(config, name)):
            raise SfiError(
                f"unknown argument {name!r}: neither an argument of generate nor a field of GenerationConfig"
            )
    config.update(**overrides)
    if (idle := [name for name in _SAMPLES if name in overrides]) and not config.do_sample:
        raise SfiError(
            f"{', '.join(idle)}: decoding is greedy, where this changes nothing; add do_sample=True to sample"
        )
    for name in _SHARES:  # transformers ignores those above 1 in silence
        value = getattr(config, name, None)
        if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
            raise SfiError(f"generation setting {name} = {value!r} is not allowed; allowed: a number in [0, 1]")
    return config


_SAMPLES = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
_SHARES = ("top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


class Sampler:
    """Picks tokens from float32 scores; the same seed and scores give the same tokens.

    Raises SfiError for a generation setting that is out of range or not supported.
    """

    def __init__(
        self,
        config: GenerationConfig,
        prompt_length: int,
        eos_ids: tuple[int, ...],
        device: torch.device,
        seed: int,
        extra: LogitsProcessorList | None = None,
    ) -> None:
        try:
            self._processors = logits_processors(config, prompt_length, eos_ids, device, handled=("stop_strings",))
        except SfiError:
            raise
        except (TypeError, ValueError) as error:  # transformers' own words for a value out of range
            raise SfiError(f"a generation setting can't be used: {error}") from None
        self._processors.extend(extra or [])
        self._draw = bool(config.do_sample)
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._device = device

    @property
    def is_greedy(self) -> bool:
        """True if the token is always the likeliest of the model's own logits."""
        return not self._draw and not self._processors

    def pick(self, ids: list[int], logits: Tensor) -> int:
        """The next token. ids: everything so far; logits [V]."""
        scores = logits.float()[None]
        if self._processors:
            scores = self._processors(torch.tensor([ids], device=self._device), scores)
        if not self._draw:
            return int(scores[0].argmax())
        return int(torch.multinomial(torch.softmax(scores[0], dim=-1), 1, generator=self._generator))
