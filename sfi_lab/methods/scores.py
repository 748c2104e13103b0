"""What several rules score with: attention of the prompt's last queries, one score a KV head, the best positions."""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_lab.attention.decode import attention_logits, attention_weights
from sfi_lab.methods.rule import PromptLayer
from sfi_lab.selector.equations import top_k


def prompt_attention(seen: PromptLayer) -> Tensor:
    """Causal softmax attention of the prompt's last w queries: float32 [H_kv, G, w, T]."""
    heads, group, rows, dim = seen.queries.shape
    length, how = seen.k.shape[1], seen.arguments
    logits = attention_logits(seen.queries.reshape(heads, group * rows, dim), seen.k, how.scaling, how.softcap)
    positions = torch.arange(length, device=logits.device)
    logits = logits.view(heads, group, rows, length).masked_fill(
        positions > positions[length - rows :, None], -torch.inf
    )
    sinks = None if how.sink_logits is None else how.sink_logits.view(heads, group, 1).expand(-1, -1, rows)
    return attention_weights(logits, sinks)


def over_group(score: Tensor, how: str) -> Tensor:
    """One score a KV head from those of its G query heads: [H_kv, G, N] -> [H_kv, N]. how: "mean", "max" or "sum"."""
    if how == "max":
        return score.amax(1)
    return score.mean(1) if how == "mean" else score.sum(1)


def best(score: Tensor, count: int) -> Tensor:
    """Indices of the `count` highest scores, best first, equal ones by the lower position: [H_kv, N] -> int64 [H_kv, count]."""
    if count == 0:
        return torch.empty(score.shape[0], 0, dtype=torch.int64, device=score.device)
    return top_k(score, count)
