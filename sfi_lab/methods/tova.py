"""TOVA: a cache of fixed size that drops what the newest query attended to least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import KeepingRule, PromptLayer, everything
from sfi_lab.methods.scores import best, prompt_attention
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class TOVA(Method):
    """Token omission via attention (Oren et al., "Transformers are Multi-State RNNs", arXiv 2401.06104).

    After the prompt, and after every step, B positions stay: those with the most attention of the last query. So a step
    reads the B that stayed and its own, B + 1. The last query's own position always stays (the released code would drop it too
    if it had the least). The settings' sink and recent only count into B.

    heads: "all" averages over all query heads of the layer, one set for all its KV heads (the paper's); "group" gives
        each KV head a set of its own.
    """

    name = "tova"
    title = "TOVA"
    paper = "2401.06104"
    fixed = ()

    heads: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("heads", ("all", "group"))

    def rule(self, settings: Settings, spec: ModelSpec) -> LastQuery:
        return LastQuery(budget_of(settings), self.heads)


class LastQuery(KeepingRule):
    """Keeps the `budget` positions with the most attention of the last query, that query's own among them."""

    prompt_queries = 1

    def __init__(self, budget: int, heads: str) -> None:
        super().__init__()
        self.budget, self.heads = budget, heads
        self._score: dict[int, Tensor] = {}  # by layer, float32 [H_kv, n] over the kept positions

    def prompt(self, layer: int, seen: PromptLayer) -> None:
        self.keep(layer, everything(seen.k))
        self._score[layer] = self._over_heads(prompt_attention(seen)[:, :, -1])

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        kept = self.kept[layer]
        if kept.shape[1] > self.budget:  # what the last query, of the prompt or of a step, leaves to this one
            ranked = best(self._score[layer][:, :-1], self.budget - 1)
            chosen = torch.gather(kept, 1, ranked)
            self.keep(layer, torch.cat([chosen, kept[:, -1:]], dim=1), chosen)
        return super().read(layer, q, k, arguments)

    def attended(self, layer: int, weights: Tensor, positions: Tensor | None) -> None:
        self._score[layer] = self._over_heads(weights)

    def _over_heads(self, weights: Tensor) -> Tensor:
        """[H_kv, G, N] -> [H_kv, N]."""
        score = weights.mean(1)
        return score.mean(0).expand(score.shape[0], -1) if self.heads == "all" else score

    def stored(self, layer: int, length: int) -> float:
        held = super().stored(layer, length)
        return min(held, self.budget) if layer in self.kept else held
