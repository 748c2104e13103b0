"""The oracle: at every step the positions that get the most attention at that very step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.decode import attention_logits, attention_weights
from sfi_lab.methods.method import Method
from sfi_lab.methods.rule import Rule, span
from sfi_lab.methods.scores import best
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class OracleTopK(Method):
    """Sink, recent and the K positions between them with the most dense attention of the step's own query.

    What a Top-K of this size can keep at best, and no method to run: every step scores every key before it reads K. The
    attention is the softmax over all positions, averaged over the query heads of a KV head.
    """

    name = "oracle"
    title = "Oracle Top-K"
    paper = ""
    fixed = ("sink",)

    def rule(self, settings: Settings, spec: ModelSpec) -> MostAttended:
        return MostAttended(settings.sink, settings.recent, settings.k)


class MostAttended(Rule):
    """Positions 0 … sink - 1, the newest `recent`, and the k most attended others."""

    def __init__(self, sink: int, recent: int, k: int) -> None:
        self.sink, self.recent, self.k = sink, recent, k
        self._chosen: dict[int, Tensor] = {}  # of a layer's last read; once a cache is too long it stays so

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        length = k.shape[1]
        if self._reads_all(length):
            return None
        sinks = None if arguments.sink_logits is None else arguments.sink_logits.view(q.shape[:2])
        weights = attention_weights(attention_logits(q, k, arguments.scaling, arguments.softcap), sinks)
        start = self.recent_start(length)
        chosen = self._chosen[layer] = best(weights.mean(1)[:, self.sink : start], self.k) + self.sink
        return torch.cat([span(k, 0, self.sink), chosen.sort(dim=-1).values, span(k, start, length)], dim=1)

    def _reads_all(self, length: int) -> bool:
        return length <= self.sink + self.recent + self.k

    def chosen(self, layer: int) -> Tensor | None:
        return self._chosen.get(layer)

    def scored(self, layer: int, length: int) -> float:
        return 0.0 if self._reads_all(length) else length

    def recent_start(self, length: int) -> int:
        return max(self.sink, length - self.recent)
