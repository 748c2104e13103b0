"""One prompt read once, many runs from there; and runs that are fed given tokens instead of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from sfi_lab.decoder import Result, Session
from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


class Guide(LogitsProcessor):
    """Keeps every step's logits and, where `tokens` are given, leaves the sampler no choice but them."""

    def __init__(self, tokens: Sequence[int] | None = None, keep: bool = True) -> None:
        self.tokens, self._keep, self._step = tokens, keep, 0
        self._rows: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._keep:
            self._rows.append(scores[0].detach().float().cpu().clone())
        if self.tokens is None:
            return scores
        forced = torch.full_like(scores, -torch.inf)
        forced[0, self.tokens[self._step]] = 0.0
        self._step += 1
        return forced

    @property
    def logits(self) -> Tensor:
        """float32 [steps, V]: row t predicts the token that step t produced."""
        return torch.stack(self._rows)


@dataclass
class Prefix:
    """A prompt's cache, made once with dense attention; every run starts from a copy of it.

    The prompt's last W - 1 positions are read again by each run, because the first refresh shares their queries.
    """

    lab: Lab
    ids: list[int]
    window: int = 64
    read: Any = field(default=None, repr=False, compare=False)  # the prompt read to its end, kept by `forced_pass`

    @cached_property
    def cache(self) -> SequenceCache:
        """Dense K/V of all but the last `window` positions."""
        session = self.lab.session(Settings.dense())
        if self._kept:
            session.generate(self.ids[: self._kept], 1, progress=False, ignore_eos=True)
        return session.state.cache

    @property
    def rest(self) -> list[int]:
        """The prompt's last ids, which every run reads again."""
        return self.ids[self._kept :]

    @property
    def _kept(self) -> int:
        return max(0, len(self.ids) - self.window)

    def session(self, settings: Settings) -> tuple[Session, list[int]]:
        """A session that has read all but the last positions, and the ids still to be given to it."""
        if settings.prefill_window > self.window:
            raise SfiError(
                f"prefill_window = {settings.prefill_window} is longer than the {self.window} positions kept back"
            )
        session = self.lab.session(settings)
        if self._kept:
            session.state.cache = self.cache.copy()
            session.ids = list(self.ids[: self._kept])
        return session, self.rest

    def forced(
        self, settings: Settings, tokens: Sequence[int], keep_logits: bool = True, **recording: Any
    ) -> tuple[Result, Tensor | None]:
        """Teacher-forced: feeds `tokens`; the result, and logits float32 [len(tokens), V] in the model's own distribution."""
        guide = Guide(list(tokens), keep_logits)
        result = self._run(settings, len(tokens), guide, GenerationConfig(do_sample=False), recording)
        return result, guide.logits if keep_logits else None

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
        return self._run(
            settings, n, None, GenerationConfig(**drawn), {"seed": seed, "ignore_eos": ignore_eos, **recording}
        )

    def _run(self, settings: Settings, n: int, guide: Guide | None, config: GenerationConfig, options: dict) -> Result:
        session, rest = self.session(settings)
        options = {"ignore_eos": True, **options}
        if guide is not None:
            options["logits_processor"] = LogitsProcessorList([guide])
        return session.generate(rest, n, progress=False, generation_config=config, **options)
