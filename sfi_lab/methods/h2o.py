"""H2O: the positions that gathered the most attention so far, and the newest ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import KeepingRule, PromptLayer, everything
from sfi_lab.methods.scores import best, over_group
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class H2O(Method):
    """Heavy hitters (Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models",
    arXiv 2306.14048).

    Each position's attention is summed over the prompt's queries and every later step; in a conversation, from the newest
    turn's prompt on. A step reads the newest positions and, of the older ones still held, those with the largest sums, B in
    all; a position that leaves the recent window stays if its sum beats the smallest one. The settings' sink is not forced
    in: sinks gather attention by themselves.

    recent_share: share of B that is the recent window (published: half); both parts have at least one position.
    group: "mean", "max" or "sum" over the query heads of a KV head, each of which sums for itself (mean and sum choose
        the same). The paper's models have no groups.
    """

    name = "h2o"
    title = "H2O"
    paper = "2306.14048"
    fixed = ()

    recent_share: float = 0.5
    group: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_number("recent_share", 0, 1)
        self.check_choice("group", ("mean", "max", "sum"))

    def rule(self, settings: Settings, spec: ModelSpec) -> HeavyHitters:
        budget = budget_of(settings)
        recent = min(max(round(self.recent_share * budget), 1), budget - 1)
        return HeavyHitters(budget - recent, recent, self.group)


class HeavyHitters(KeepingRule):
    """Keeps the `recent` newest positions and the `heavy` others with the most attention gathered."""

    accumulates = True

    def __init__(self, heavy: int, recent: int, group: str) -> None:
        super().__init__()
        self.heavy, self.recent, self.group = heavy, recent, group
        self._gathered: dict[int, Tensor] = {}  # by layer, float32 [H_kv, G, n] over the kept positions

    def prompt(self, layer: int, seen: PromptLayer) -> None:
        self.keep(layer, everything(seen.k))
        self._gathered[layer] = seen.received

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        super().read(layer, q, k, arguments)
        self._gathered[layer] = pad(self._gathered[layer], (0, 1))
        self._drop(layer)
        return self.kept[layer]

    def _drop(self, layer: int) -> None:
        """Down to heavy + recent positions; the last columns are the recent window, for none of it was ever dropped."""
        kept, gathered = self.kept[layer], self._gathered[layer]
        older = kept.shape[1] - self.recent
        if older <= self.heavy:
            return
        ranked = best(over_group(gathered[..., :older], self.group), self.heavy)
        stays = torch.cat([ranked.sort(dim=-1).values, everything(kept[..., None])[:, older:]], dim=1)
        self.keep(layer, torch.gather(kept, 1, stays), torch.gather(kept, 1, ranked))
        self._gathered[layer] = torch.gather(gathered, 2, stays[:, None].expand(-1, gathered.shape[1], -1))

    def attended(self, layer: int, weights: Tensor, positions: Tensor | None) -> None:
        self._gathered[layer] = self._gathered[layer] + weights

    def extra_bytes(self, layer: int, length: int) -> int:
        return self._gathered[layer].nbytes if layer in self._gathered else 0

    def recent_start(self, length: int) -> int:
        return max(0, length - self.recent)
