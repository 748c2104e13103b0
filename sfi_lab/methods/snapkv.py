"""SnapKV: the prompt's last queries vote once on what the rest of the answer may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d

from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import KeepingRule, PromptLayer, everything, span
from sfi_lab.methods.scores import best, over_group, prompt_attention
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class SnapKV(Method):
    """A vote of the prompt's end (Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation", arXiv 2404.14469).

    The softmax attention of the last w prompt queries is averaged over them, pooled along the positions before them, and
    put together over the group; each KV head keeps the best B - w of those positions and the w of the window. Nothing is
    dropped later, so a step reads B positions and all tokens since the prompt. The settings' sink and recent only count
    into B. A prompt of at most B positions is kept whole.

    window: w, the observation window. The published code runs with 32 unless told otherwise (the 64 in its class's
        signature is never used then), the published experiments with 16 and 32. One that does not fit (w ≥ B) is cut to
        half of B.
    pool: positions that share their scores, odd; the published averages count zeros beyond the ends.
    pooling: "mean" (the published default) or "max".
    group: "mean" or "max" over the query heads of a KV head. The paper selects for each query head by itself, which a
        cache that is shared by a group cannot do.
    """

    name = "snapkv"
    title = "SnapKV"
    paper = "2404.14469"
    fixed = ()

    window: int = 32
    pool: int = 5
    pooling: str = "mean"
    group: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("window", 1)
        self.check_whole("pool", 1)
        if self.pool % 2 == 0:
            raise self._refusal("pool", "an odd whole number ≥ 1")
        self.check_choice("pooling", ("mean", "max"))
        self.check_choice("group", ("mean", "max"))

    def rule(self, settings: Settings, spec: ModelSpec) -> ObservationWindow:
        return ObservationWindow(self, budget_of(settings))


class ObservationWindow(KeepingRule):
    """Keeps, of the prompt, the observation window and the positions it attended to; afterwards everything."""

    def __init__(self, method: SnapKV, budget: int) -> None:
        super().__init__()
        self.method, self.budget = method, budget
        self.prompt_queries = method.window if method.window < budget else budget // 2
        self._start = 0  # first position of the observation window

    def prompt(self, layer: int, seen: PromptLayer) -> None:
        length, window = seen.k.shape[1], seen.queries.shape[2]
        budget = self.budget_for(layer, length)
        self._start = length - window
        if length <= budget:
            self.keep(layer, everything(seen.k))
            return
        chosen = best(self.score(seen), budget - window)
        positions = torch.cat([chosen, span(seen.k, self._start, length)], dim=1)
        self.keep(layer, positions, chosen if budget > window else None)

    def budget_for(self, layer: int, length: int) -> int:
        """Positions of a prompt of this length that the layer keeps."""
        return self.budget

    def score(self, seen: PromptLayer) -> Tensor:
        """float32 [H_kv, T - w]: what the window attended to among the positions before it."""
        window = seen.queries.shape[2]
        votes = prompt_attention(seen).mean(2)[..., : seen.k.shape[1] - window]
        pool = avg_pool1d if self.method.pooling == "mean" else max_pool1d
        return over_group(pool(votes, self.method.pool, stride=1, padding=self.method.pool // 2), self.method.group)

    def recent_start(self, length: int) -> int:
        return self._start
