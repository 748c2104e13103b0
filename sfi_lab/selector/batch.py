"""Many refreshes of one layer ranked together: what `choose` ranks one by one, bit for bit, at a fraction of the calls.

Refreshes differ in their number of candidates J, so a group is padded to its longest. Between λ and Top-K every stage works
on single candidates, on the maximum of a window, or across heads: padding at the end changes nothing in front of it. λ sums
over J, so it is taken from unpadded rows and given here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sfi_lab.selector import equations as eq
from sfi_lab.settings import Settings

_TOGETHER = 1 << 17  # scores of one group: a few stages of it stay in a core's cache


def rank_many(
    evidence: Sequence[Tensor], prior: Sequence[Tensor], lam: Sequence[Tensor], settings: Settings
) -> list[np.ndarray]:
    """Rankings of m refreshes, best first, equal scores by the lower position: m × int32 [H_kv, min(K, J_i)], 0 is the oldest.

    Args:
        evidence, prior: m × float32 [H_kv, J_i], rows sum to 1 (`evidence_of`, `prior_of`). lam: m × float32 [H_kv].
        settings: NMS, exclusivity and K are read.
    """
    found: list[np.ndarray] = []
    for group in _groups([f.shape for f in evidence]):
        lengths = [f.shape[-1] for f in evidence[group]]
        f, r = _padded(evidence[group]), _padded(prior[group])
        z = eq.log_score(eq.fuse(f, r, torch.stack(list(lam[group]))))
        z = eq.soft_nms(_hide_padding(z, lengths), settings.nms_radius, settings.nms_strength)
        z = eq.exclusive(z, settings.exclusivity, settings.temperature)
        order = ranking(_hide_padding(z, lengths).numpy(), settings.k)
        found += [order[i, :, :n].copy() for i, n in enumerate(lengths)]
    return found


def ranking(z: np.ndarray, k: int) -> np.ndarray:
    """Top-K of z float32 [..., J] in rank order, equal scores by the lower position: int32 [..., min(K, J)].

    Score and position become one whole number, so that no two are equal and any selection algorithm gives this order.
    """
    n = z.shape[-1]
    k = min(k, n)
    bits = (z + np.float32(0)).view(np.int32)  # -0 becomes 0, which it equals
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)  # ordered as the floats are
    keys <<= 32
    keys |= np.arange(n - 1, -1, -1)
    if k < n:
        keys = np.partition(keys, n - k, axis=-1)[..., n - k :]
    keys.sort(axis=-1)
    return (n - 1 - (keys[..., ::-1] & 0xFFFFFFFF)).astype(np.int32)


def _groups(shapes: Sequence[torch.Size]) -> Iterator[slice]:
    """Neighbours whose padded scores fit `_TOGETHER`, at least one."""
    start = 0
    while start < len(shapes):
        stop, longest = start, 0
        while stop < len(shapes):
            longest = max(longest, shapes[stop][1])
            if stop > start and (stop + 1 - start) * shapes[stop][0] * longest > _TOGETHER:
                break
            stop += 1
        yield slice(start, stop)
        start = stop


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """[H_kv, J_i] as [m, H_kv, J], zero behind each."""
    out = rows[0].new_zeros(len(rows), rows[0].shape[0], max(row.shape[1] for row in rows))
    for i, row in enumerate(rows):
        out[i, :, : row.shape[1]] = row
    return out


def _hide_padding(z: Tensor, lengths: Sequence[int]) -> Tensor:
    """-inf behind each refresh's own candidates: never a window's maximum, never among the best. In place."""
    for i, n in enumerate(lengths):
        z[i, :, n:] = -torch.inf
    return z
