"""The cache object a model is called with: one full cache a layer, every position kept."""

from __future__ import annotations

from torch import Tensor

from sfi_lab.compat import KVCache
from sfi_lab.memory import FullCache


class SequenceCache(KVCache):
    """K/V of one sequence. Attention is given all positions; which of them a step reads is the state's business."""

    def __init__(self, n_layers: int) -> None:
        super().__init__(n_layers)
        self.full = [FullCache() for _ in range(n_layers)]

    def append(self, layer_idx: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k, v [1, H_kv, n, D] -> all keys and values [1, H_kv, T, D]."""
        cache = self.full[layer_idx]
        cache.append(k[0], v[0])
        return cache.k[None], cache.v[None]

    def length(self, layer_idx: int = 0) -> int:
        """Positions cached."""
        return self.full[layer_idx].length

    def truncate(self, length: int) -> None:
        """Forgets everything from position `length` on, in every layer."""
        for cache in self.full:
            cache.crop(length)

    def copy(self) -> SequenceCache:
        """An independent cache with the same contents."""
        twin = SequenceCache(len(self.full))
        twin.full = [cache.copy() for cache in self.full]
        return twin
