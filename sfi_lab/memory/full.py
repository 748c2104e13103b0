"""The full K/V cache of one layer: nothing is ever evicted, every key keeps its original position."""

from __future__ import annotations

import torch
from torch import Tensor


class FullCache:
    """K/V of one layer and sequence in buffers that grow by doubling; position i lies at index i."""

    def __init__(self, capacity: int = 256) -> None:
        self.length = 0
        self._capacity = capacity
        self._k: Tensor | None = None  # [H_kv, capacity, D]
        self._v: Tensor | None = None
        self._norms: Tensor | None = None  # ‖k_j‖ [H_kv, capacity], float32, filled on demand up to _normed
        self._normed = 0
        self._position_bytes = 0  # of one position's key and value, all heads

    def append(self, k: Tensor, v: Tensor) -> None:
        """Adds the newest positions. k, v [H_kv, n, D]."""
        end = self.length + k.shape[1]
        if self._k is None or end > self._k.shape[1]:
            self._grow(k, v, end)
        self._k[:, self.length : end] = k
        self._v[:, self.length : end] = v
        self.length = end

    @property
    def k(self) -> Tensor:
        """All keys, a view [H_kv, length, D]."""
        return self._k[:, : self.length]

    @property
    def v(self) -> Tensor:
        """All values, a view [H_kv, length, D_v]."""
        return self._v[:, : self.length]

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values cached (room kept for more is not counted)."""
        return self.length * self._position_bytes

    def norms(self, start: int, end: int) -> Tensor:
        """‖k_j‖ for positions start … end - 1, float32 [H_kv, end - start]; each is computed once."""
        if self._norms is None:
            self._norms = torch.empty(self._k.shape[:2], dtype=torch.float32, device=self._k.device)
        if end > self._normed:
            self._norms[:, self._normed : end] = self._k[:, self._normed : end].float().norm(dim=-1)
            self._normed = end
        return self._norms[:, start:end]

    def crop(self, length: int) -> None:
        """Forgets everything from position `length` on (a conversation that continues differently)."""
        self.length = min(self.length, length)
        self._normed = min(self._normed, self.length)

    def copy(self) -> FullCache:
        """An independent cache with the same contents."""
        twin = FullCache(self._capacity)
        if self._k is not None:
            twin.append(self.k, self.v)
        return twin

    def _grow(self, k: Tensor, v: Tensor, needed: int) -> None:
        self._capacity = max(needed + needed // 4, self._capacity)
        self._position_bytes = (k.nbytes + v.nbytes) // k.shape[1]
        old_k, old_v = self._k, self._v
        self._k = k.new_empty(k.shape[0], self._capacity, k.shape[2])
        self._v = v.new_empty(v.shape[0], self._capacity, v.shape[2])
        if old_k is not None:
            self._k[:, : self.length] = old_k[:, : self.length]
            self._v[:, : self.length] = old_v[:, : self.length]
        if self._norms is not None:
            norms = self._norms.new_empty(k.shape[0], self._capacity)
            norms[:, : self._normed] = self._norms[:, : self._normed]
            self._norms = norms
