"""One query a layer: dense attention over the whole prefix, and sparse attention over two segments."""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_lab.memory import PackedMemory


def attention_logits(q: Tensor, k: Tensor, scaling: float, softcap: float | None = None) -> Tensor:
    """scaling · q kᵀ, then cap · tanh(x / cap) where the model has one. q [H_kv, R, D], k [H_kv, T, D] -> float32 [H_kv, R, T]."""
    logits = torch.matmul(q.float(), k.float().transpose(-1, -2)).mul_(scaling)
    if softcap is not None:
        logits = torch.tanh_(logits.div_(softcap)).mul_(softcap)
    return logits


def attention_weights(logits: Tensor, sink_logits: Tensor | None = None) -> Tensor:
    """Softmax over the last axis; a model's sink logits [H_kv, R] join the denominator and take their share away."""
    if sink_logits is None:
        return torch.softmax(logits, dim=-1)
    joined = torch.cat([logits, sink_logits[..., None].to(logits.dtype)], dim=-1)
    return torch.softmax(joined, dim=-1)[..., :-1]


def dense_decode(
    q: Tensor, k: Tensor, v: Tensor, scaling: float, softcap: float | None = None, sink_logits: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one position to the whole prefix.

    Args:
        q: queries of the group's heads [H_kv, G, D].
        k, v: all cached keys and values [H_kv, T, D].
        scaling, softcap, sink_logits [H_kv, G]: as the model hands them to its attention function.

    Returns:
        output [H_kv, G, D_v] in q's dtype, weights and logits float32 [H_kv, G, T].
    """
    logits = attention_logits(q, k, scaling, softcap)
    weights = attention_weights(logits, sink_logits)
    return torch.matmul(weights.to(v.dtype), v), weights, logits


def sparse_decode(
    q: Tensor,
    packed: PackedMemory,
    recent_k: Tensor,
    recent_v: Tensor,
    scaling: float,
    softcap: float | None = None,
    sink_logits: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention to sink, selected and recent positions and to nothing else.

    Args:
        q: [H_kv, G, D]. packed: sink and selected. recent_k, recent_v: the recent window in place [H_kv, W, D].

    Returns:
        output [H_kv, G, D_v] in q's dtype; weights float32 [H_kv, G, S + K + W] in the order sink, selected, recent.
    """
    logits = torch.cat(
        [attention_logits(q, packed.k, scaling, softcap), attention_logits(q, recent_k, scaling, softcap)], dim=-1
    )
    weights = attention_weights(logits, sink_logits)
    n = packed.k.shape[1]
    w = weights.to(recent_v.dtype)
    return torch.matmul(w[..., :n], packed.v) + torch.matmul(w[..., n:], recent_v), weights


def decode_at(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor | None,
    scaling: float,
    softcap: float | None = None,
    sink_logits: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention to the given positions of the full cache and to nothing else.

    Args:
        q: [H_kv, G, D]. k, v: [H_kv, T, D]. positions: int64 [H_kv, N], or None for all.

    Returns:
        output [H_kv, G, D_v] in q's dtype; weights float32 [H_kv, G, N] in the order of the positions.
    """
    if positions is not None and positions.shape[1] < k.shape[1]:
        rows = torch.arange(k.shape[0], device=k.device)[:, None]
        k, v = k[rows, positions], v[rows, positions]
    out, weights, _ = dense_decode(q, k, v, scaling, softcap, sink_logits)
    return out, weights
