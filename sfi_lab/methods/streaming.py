"""StreamingLLM: the first positions and the newest ones, whatever their attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import Rule, span
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class StreamingLLM(Method):
    """Sink and recent alone (Xiao et al., "Efficient Streaming Language Models with Attention Sinks", arXiv 2309.17453).

    The whole budget beside the sinks is the sliding window; the sinks are the settings' (4, as in the paper). Two things
    differ from the paper: positions keep their place in the text, where it numbers them anew inside the cache (what lets
    it pass the model's context, and what brings the sinks nearer to the query); and the prompt is read with dense
    attention, as for every method here, where it streams through the same window.
    """

    name = "streaming"
    title = "StreamingLLM"
    paper = "2309.17453"
    fixed = ("sink",)

    def rule(self, settings: Settings, spec: ModelSpec) -> Rule:
        return SinkAndRecent(settings.sink, budget_of(settings) - settings.sink)


class SinkAndRecent(Rule):
    """Positions 0 … sink - 1 and the newest `recent`; nothing else is stored."""

    def __init__(self, sink: int, recent: int) -> None:
        self.sink, self.recent = sink, recent

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        length = k.shape[1]
        if length <= self.sink + self.recent:
            return None
        return torch.cat([span(k, 0, self.sink), span(k, self.recent_start(length), length)], dim=1)

    def stored(self, layer: int, length: int) -> float:
        return min(length, self.sink + self.recent)

    def recent_start(self, length: int) -> int:
        return max(self.sink, length - self.recent)
