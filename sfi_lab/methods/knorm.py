"""KNorm: the keys with the smallest norms, whatever the queries say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.methods.method import Method, budget_of
from sfi_lab.methods.rule import KeepingRule, PromptLayer, everything
from sfi_lab.methods.scores import best
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class KNorm(Method):
    """Small keys get attention (Devoto et al., "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression",
    arXiv 2406.11430).

    Of the prompt, each KV head keeps the B positions whose keys have the smallest L2 norm. Neither sink nor recent
    positions are safe: the settings' only count into B.

    skip_layers: the model's first layers that keep everything (2 in the authors' published example; their experiments try
        several sets). B is that of the other layers alone, so the mean over all layers is larger, and `keys_read` says
        so; skip_layers=0, as KVPress does it, holds every layer to B.
    continue_in_decode: goes on dropping the largest key before each step, so that steps read B; otherwise all tokens
        after the prompt stay, as in KVPress.
    protect_recent: newest positions that stay whatever their norm (published: 0; the step's own always stays), at most
        B - 1.
    """

    name = "knorm"
    title = "KNorm"
    paper = "2406.11430"
    fixed = ()

    skip_layers: int = 2
    continue_in_decode: bool = False
    protect_recent: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("skip_layers", 0)
        self.check_whole("protect_recent", 0)
        if not isinstance(self.continue_in_decode, bool):
            raise self._refusal("continue_in_decode", "true | false")

    def rule(self, settings: Settings, spec: ModelSpec) -> SmallestKeys:
        return SmallestKeys(self, budget_of(settings))


class SmallestKeys(KeepingRule):
    """Keeps the `budget` positions with the smallest keys, of the prompt alone or at every step."""

    def __init__(self, method: KNorm, budget: int) -> None:
        super().__init__()
        self.method, self.budget = method, budget
        self.protected = min(method.protect_recent, budget - 1)
        self._norms: dict[int, Tensor] = {}  # by layer, float32 [H_kv, n] over the kept positions
        self._prompt_length = 0

    def prompt(self, layer: int, seen: PromptLayer) -> None:
        self._prompt_length = seen.k.shape[1]
        if layer >= self.method.skip_layers:
            self.keep(layer, everything(seen.k))
            self._norms[layer] = seen.k.float().norm(dim=-1)
            self._drop(layer, self.protected)

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        if layer < self.method.skip_layers:
            return None
        super().read(layer, q, k, arguments)
        if self.method.continue_in_decode:
            self._norms[layer] = torch.cat([self._norms[layer], k[:, -1:].float().norm(dim=-1)], dim=1)
            self._drop(layer, max(self.protected, 1))
        return self.kept[layer]

    def _drop(self, layer: int, protected: int) -> None:
        """Down to the budget; the last `protected` columns, the newest positions, stay."""
        kept, norms = self.kept[layer], self._norms[layer]
        older = kept.shape[1] - protected
        if kept.shape[1] <= self.budget:
            return
        ranked = best(-norms[:, :older], self.budget - protected)
        stays = torch.cat([ranked.sort(dim=-1).values, everything(kept[..., None])[:, older:]], dim=1)
        self.keep(layer, torch.gather(kept, 1, stays), torch.gather(kept, 1, ranked))
        self._norms[layer] = torch.gather(norms, 1, stays)

    def stored(self, layer: int, length: int) -> float:
        return length if layer < self.method.skip_layers else super().stored(layer, length)

    def extra_bytes(self, layer: int, length: int) -> int:
        goes_on = self.method.continue_in_decode and layer in self._norms
        return self._norms[layer].nbytes if goes_on else 0

    def recent_start(self, length: int) -> int:
        if self.method.continue_in_decode:
            return max(0, length - max(self.protected, 1))
        return max(0, self._prompt_length - self.protected)
