"""Dense attention of one recorded layer, and how much of it steps keep that read sink, selected and recent positions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sfi_lab.attention.decode import attention_logits, attention_weights

_CHUNK = 32  # decode steps whose weights are computed together


def attention_chunks(
    q: Tensor, k: Tensor, lengths: Sequence[int], scale: float, softcap: float | None, sinks: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """Dense attention weights, a few decode steps at a time: (steps, float32 [H_kv, G, m, L]), zero beyond a step's own length.

    Args:
        q: [n, H_q, D]. k: [H_kv, T, D]. lengths: n cached positions, each step's own included, ascending; L is the longest
            of a chunk. scale, softcap, sinks [H_q]: as the layer's attention has them.
    """
    heads, n = k.shape[0], q.shape[0]
    group = q.shape[1] // heads
    for start in range(0, n, _CHUNK):
        rows = slice(start, min(start + _CHUNK, n))
        m, shortest, length = rows.stop - start, lengths[start], lengths[rows.stop - 1]
        by_head = q[rows].view(m, heads, group, -1).permute(1, 2, 0, 3).reshape(heads, group * m, -1)
        logits = attention_logits(by_head, k[:, :length], scale, softcap).view(heads, group, m, length)
        later = torch.arange(shortest, length)[None] >= torch.tensor(lengths[rows])[:, None]
        logits[..., shortest:].masked_fill_(later, -torch.inf)
        shares = None if sinks is None else sinks.view(heads, group, 1).expand(heads, group, m)
        yield rows, attention_weights(logits, shares)


class Mass:
    """Attention mass by position and step, mean over each group's query heads. n steps, T positions, H_kv KV heads.

    weights: float32 [H_kv, T, n]. Steps are innermost: those between two refreshes read the same positions, so each selected
        position is one short stretch of memory.
    total: float32 [n, H_kv], mass on all positions (1, or less where sink logits take a share).
    """

    def __init__(self, heads: int, positions: int, lengths: Sequence[int]) -> None:
        n = len(lengths)
        self.weights, self.total = torch.empty(heads, positions, n), torch.empty(n, heads)
        self._lengths = lengths

    def take(self, rows: slice, weights: Tensor) -> None:
        """Keeps one of `attention_chunks`; all of them make the mass complete."""
        mean = weights.mean(1)
        length = mean.shape[-1]
        self.weights[:, :length, rows] = mean.transpose(1, 2)
        self.weights[:, length:, rows] = 0
        self.total[rows] = mean.sum(-1).T

    def around(self, sink: int, starts: np.ndarray) -> Tensor:
        """Mass on the sink and on each step's positions from `starts` [n] on: float32 [n, H_kv]."""
        kept = self.weights[:, :sink].sum(1).T.contiguous()
        for begin in range(0, len(starts), _CHUNK):
            rows = slice(begin, min(begin + _CHUNK, len(starts)))
            low, high = int(starts[rows].min()), self._lengths[rows.stop - 1]
            inside = torch.arange(low, high)[:, None] >= torch.from_numpy(starts[rows])[None]
            kept[rows] += (self.weights[:, low:high, rows] * inside).sum(1).T
        return kept

    def add_selected(self, kept: Tensor, positions: dict[int, np.ndarray]) -> None:
        """Adds to `kept` [n, H_kv] the mass on what is selected, in force from each refresh to the next.

        positions: by index of the refreshing step, int [H_kv, K], absolute.
        """
        heads, length, n = self.weights.shape
        flat, first = self.weights.view(heads * length, n), np.arange(heads)[:, None] * length
        for i, until in itertools.pairwise([*positions, n]):
            where = torch.from_numpy(np.sort(positions[i], axis=-1) + first)  # ascending, as memory lies
            read = flat[:, i:until].index_select(0, where.view(-1))
            kept[i:until] += read.view(heads, -1, until - i).sum(1).T
