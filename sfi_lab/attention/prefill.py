"""Attention of many queries at once (prompts), and of layers that keep a window of their own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from sfi_lab.attention.decode import attention_logits, attention_weights

_QUERY_BLOCK = 256  # rows of explicit attention at a time, so that a long prompt doesn't hold all its weights


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scaling: float,
    softcap: float | None = None,
    sink_logits: Tensor | None = None,
) -> Tensor:
    """Causal attention under the model's own mask: torch's SDPA where it can say it, explicit softmax where it can't.

    Args:
        q: [H_q, n, D]. k, v: [H_kv, T, D], the last n of the T positions being the queries' own.
        mask: bool or additive [n, T], or None for plain causal.
        softcap, sink_logits [H_q]: as the model hands them over.

    Returns:
        [H_q, n, D_v].
    """
    n, total = q.shape[1], k.shape[1]
    causal = mask is None and n > 1
    if softcap is None and sink_logits is None:
        if causal and total > n:  # is_causal aligns to the top left, which is right only without a prefix
            mask = torch.ones(n, total, dtype=torch.bool, device=q.device).tril(total - n)
            causal = False
        return scaled_dot_product_attention(
            q[None],
            k[None],
            v[None],
            attn_mask=mask,
            is_causal=causal,
            scale=scaling,
            enable_gqa=q.shape[0] != k.shape[0],
        )[0]
    if causal:
        mask = torch.ones(n, total, dtype=torch.bool, device=q.device).tril(total - n)
    return _explicit(q, k, v, mask, scaling, softcap, sink_logits)


def _explicit(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, softcap: float | None, sinks: Tensor | None
) -> Tensor:
    heads, n, _ = q.shape
    group = heads // k.shape[0]
    blocks = []
    for start in range(0, n, _QUERY_BLOCK):
        rows = q[:, start : start + _QUERY_BLOCK]
        m = rows.shape[1]
        logits = attention_logits(rows.reshape(k.shape[0], group * m, -1), k, scaling, softcap)
        if mask is not None:
            part = mask[start : start + m].repeat(group, 1)
            logits = logits.masked_fill(~part, -torch.inf) if part.dtype == torch.bool else logits + part
        per_row = None if sinks is None else sinks.view(-1, group, 1).expand(-1, -1, m).reshape(-1, group * m)
        out = torch.matmul(attention_weights(logits, per_row).to(v.dtype), v)
        blocks.append(out.view(heads, m, -1))
    return torch.cat(blocks, dim=1)
