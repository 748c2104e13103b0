"""The packed memory of one layer: sink and selected K/V side by side, so that a fast step reads two segments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfi_lab.memory.full import FullCache


@dataclass(frozen=True, slots=True)
class PackedMemory:
    """Sink and selected positions of one layer after a refresh, each KV head with its own selection."""

    positions: Tensor  # int64 [H_kv, S + K], sink first, then selected, ascending
    k: Tensor  # [H_kv, S + K, D], contiguous
    v: Tensor  # [H_kv, S + K, D_v], contiguous

    @classmethod
    def pack(cls, cache: FullCache, sink: int, selected: Tensor) -> PackedMemory:
        """Gathers sink positions 0 … sink - 1 and the selected positions (int64 [H_kv, K]) out of the full cache."""
        heads = selected.shape[0]
        first = torch.arange(sink, device=selected.device).expand(heads, sink)
        positions = torch.cat([first, selected], dim=1)
        rows = torch.arange(heads, device=selected.device)[:, None]
        return cls(positions, cache.k[rows, positions], cache.v[rows, positions])


def recent_start(length: int, sink: int, recent: int) -> int:
    """First position of the recent window when `length` positions are cached; never before the sink's end."""
    return max(sink, length - recent)
