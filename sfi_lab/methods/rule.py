"""What a method's steps may read: one `Rule` a sequence, asked layer by layer by the decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments


@dataclass(frozen=True, slots=True)
class PromptLayer:
    """What a rule may know of one layer once the prompt's T positions are read (G query heads share a KV head).

    k, v: [H_kv, T, D] in the model's dtype. queries: the prompt's last w queries [H_kv, G, w, D], w at most what the rule
    asked for (`prompt_queries`) and the prompt has. received: float32 [H_kv, G, T], the attention that each position got,
    summed over the queries read since the cache was last empty or the conversation went on; None unless asked for
    (`accumulates`).
    """

    k: Tensor
    v: Tensor
    queries: Tensor
    received: Tensor | None
    arguments: AttentionArguments


class Rule:
    """Which positions a step may read, per layer and KV head, and when that changes. One object serves one sequence.

    The decoder reads the prompt with dense attention, calls `prompt` once a layer, and then for every step and layer
    `read`, attends, and calls `attended`. A new turn of a conversation makes a new rule. The full cache stays in memory,
    so that a recording can say what was missed; a rule that evicts simply never asks for those positions again, and
    `stored` says what a cache of its own would hold.

    prompt_queries: how many of the prompt's last queries `prompt` is to get.
    accumulates: `prompt` is to get the attention that each position received (doubles the cost of reading the prompt).
    """

    prompt_queries = 0
    accumulates = False

    def prompt(self, layer: int, seen: PromptLayer) -> None:
        """Called once a layer when the first step after the prompt begins."""

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        """The positions this step reads, the newest among them: int64 [H_kv, N], ascending; None for all.

        q [H_kv, G, D] is the step's query; k [H_kv, T, D] all cached keys, the newest being the query's own.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method read(layer, q, k, arguments)")

    def attended(self, layer: int, weights: Tensor, positions: Tensor | None) -> None:
        """Told the step's attention. weights float32 [H_kv, G, N] over `positions` (None: over all T)."""

    def chosen(self, layer: int) -> Tensor | None:
        """What was chosen by score in the last `prompt` or `read`, best first, int64 [H_kv, K]; None if nothing was."""
        return None

    def stored(self, layer: int, length: int) -> float:
        """Positions per KV head whose keys and values must be held after this step, `length` being cached."""
        return length

    def extra_bytes(self, layer: int, length: int) -> int:
        """Bytes held beside keys and values (page bounds, accumulated scores)."""
        return 0

    def scored(self, layer: int, length: int) -> float:
        """Keys, or vectors of a key's size, per KV head that this step looked at only to choose."""
        return 0.0

    def recent_start(self, length: int) -> int:
        """First position of the newest ones that are read whatever their score."""
        return length - 1


class KeepingRule(Rule):
    """A rule that keeps a set of positions per layer and KV head: new ones join, what is dropped never comes back."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}  # by layer, int64 [H_kv, n], ascending
        self._chosen: dict[int, Tensor] = {}

    def keep(self, layer: int, positions: Tensor, chosen: Tensor | None = None) -> None:
        """Sets what is kept (any order); `chosen`: those of them that a score chose, best first."""
        self.kept[layer] = positions.sort(dim=-1).values
        if chosen is not None:
            self._chosen[layer] = chosen

    def read(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor | None:
        """All kept positions and the newest."""
        kept, newest = self.kept[layer], k.shape[1] - 1
        self.kept[layer] = torch.cat([kept, kept.new_full((kept.shape[0], 1), newest)], dim=1)
        return self.kept[layer]

    def chosen(self, layer: int) -> Tensor | None:
        return self._chosen.pop(layer, None)

    def stored(self, layer: int, length: int) -> float:
        return (
            self.kept[layer].shape[1] if layer in self.kept else length
        )  # a prompt is held whole until the first step


def everything(k: Tensor) -> Tensor:
    """All positions of a cache: int64 [H_kv, T]. k [H_kv, T, D]."""
    return torch.arange(k.shape[1], device=k.device).expand(k.shape[0], -1)


def span(k: Tensor, start: int, end: int) -> Tensor:
    """Positions start … end - 1 for every KV head: int64 [H_kv, end - start]. k [H_kv, T, D]."""
    return torch.arange(start, end, device=k.device).expand(k.shape[0], -1)
