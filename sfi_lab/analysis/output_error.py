"""The error of one layer's attention output where steps read sink, selected and recent positions instead of all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_CHUNK = 64  # decode steps whose windows are summed together


class OutputError:
    """‖o - o_dense‖ / ‖o_dense‖ of every decode step and query head. n steps, G query heads a KV head.

    Args:
        weights: dense attention weights float32 [n, H_q, T], zero beyond a step's own length.
        values: [H_kv, T, D_v]. lengths: n cached positions, each step's own included.
    """

    def __init__(self, weights: Tensor, values: Tensor, lengths: Sequence[int]) -> None:
        self._weights, self._v, self._lengths = weights, values, lengths
        self._total, self._dense = weights.sum(-1), self._weighted(weights, slice(None))
        self._around: dict[tuple, tuple[Tensor, Tensor]] = {}  # the newest: what sink and windows give

    def of(self, sink: int, starts: np.ndarray, positions: dict[int, np.ndarray], whole: np.ndarray) -> np.ndarray:
        """float32 [n, H_q].

        Args:
            starts: first position of each step's recent window [n]. positions: by index of the refreshing step, absolute
                [H_kv, K]. whole: bool [n], steps that read everything.
        """
        key = (sink, starts.tobytes())
        if key not in self._around:
            self._around = {key: self._sink_and_recent(sink, starts)}
        mass, out = (x.clone() for x in self._around[key])
        n, heads, _ = self._weights.shape
        kv_heads = self._v.shape[0]
        group = heads // kv_heads
        for i, until in itertools.pairwise([*positions, n]):
            chosen = torch.from_numpy(np.sort(positions[i], axis=-1).astype(np.int64))
            by_head = self._weights[i:until].view(until - i, kv_heads, group, -1).transpose(0, 1)
            part = torch.gather(by_head, 3, chosen[:, None, None].expand(-1, until - i, group, -1))
            mass[i:until] += part.sum(-1).transpose(0, 1).reshape(until - i, heads)
            v = self._v[torch.arange(kv_heads)[:, None], chosen]
            add = torch.matmul(part.flatten(1, 2), v).view(kv_heads, until - i, group, -1)
            out[i:until] += add.transpose(0, 1).reshape(until - i, heads, -1)
        # sink logits, where a model has them, keep their share of the denominator on both sides
        rest = 1.0 - self._total
        sparse = out / (mass + rest).clamp_min(1e-12)[..., None]
        error = (sparse - self._dense).norm(dim=-1) / self._dense.norm(dim=-1).clamp_min(1e-12)
        error[torch.from_numpy(whole)] = 0.0
        return error.numpy()

    def _sink_and_recent(self, sink: int, starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """Mass [n, H_q] and weighted values [n, H_q, D_v] of the sink and of each step's window."""
        weights = self._weights
        mass = weights[:, :, :sink].sum(-1)
        out = self._weighted(weights[:, :, :sink], slice(0, sink))
        for begin in range(0, len(starts), _CHUNK):
            rows = slice(begin, min(begin + _CHUNK, len(starts)))
            low, high = int(starts[rows].min()), self._lengths[rows.stop - 1]
            inside = torch.arange(low, high)[None] >= torch.from_numpy(starts[rows])[:, None]
            part = weights[rows, :, low:high] * inside[:, None]
            mass[rows] += part.sum(-1)
            out[rows] += self._weighted(part, slice(low, high))
        return mass, out

    def _weighted(self, weights: Tensor, span: slice) -> Tensor:
        """weights [m, H_q, P] times the values of `span` -> [m, H_q, D_v]."""
        m, heads, _ = weights.shape
        group = heads // self._v.shape[0]
        grouped = weights.view(m, heads // group, group, -1 if weights.numel() else 0)
        out = torch.matmul(grouped.permute(1, 0, 2, 3).flatten(1, 2), self._v[:, span])
        return out.view(-1, m, group, out.shape[-1]).permute(1, 0, 2, 3).reshape(m, heads, -1)
