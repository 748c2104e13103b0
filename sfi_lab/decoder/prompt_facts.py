"""What a method's first choice needs of the prompt: its last queries, and the attention that each position got."""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.decode import attention_logits, attention_weights

_QUERY_BLOCK = 256  # rows of explicit attention at a time


class PromptFacts:
    """Gathered while a prompt is read, chunk by chunk; shared by every run that starts from the same prompt.

    rows: queries kept a layer. accumulates: also sum the attention that each position receives.
    """

    def __init__(self, rows: int, accumulates: bool = False) -> None:
        self.rows, self.accumulates = rows, accumulates
        self._queries: dict[int, Tensor] = {}  # by layer [H_q, at most rows, D]
        self._received: dict[int, Tensor] = {}  # by layer float32 [H_kv, G, positions seen]
        self._end: dict[int, int] = {}  # positions cached when the layer's chunk had been read

    def copy(self) -> PromptFacts:
        """Facts that may go on independently; tensors are shared, none is ever changed in place."""
        twin = PromptFacts(self.rows, self.accumulates)
        twin._queries, twin._received, twin._end = dict(self._queries), dict(self._received), dict(self._end)
        return twin

    def emptied(self) -> PromptFacts:
        """Facts that wait for the next prompt; this one stays as it is for others that share it."""
        return PromptFacts(self.rows, self.accumulates) if self._end else self

    def saw(self, layer: int, q: Tensor, k: Tensor, arguments: AttentionArguments) -> None:
        """One chunk of the prompt. q [H_q, n, D] are the queries of the last n of k's positions; k [H_kv, T, D]."""
        if self._end.get(layer) != k.shape[1] - q.shape[1]:  # not the continuation of what was seen
            self._queries.pop(layer, None)
            self._received.pop(layer, None)
        self._end[layer] = k.shape[1]
        if self.rows:
            kept = self._queries.get(layer)
            self._queries[layer] = (q if kept is None else torch.cat([kept, q], dim=1))[:, -self.rows :].clone()
        if self.accumulates:
            got = _attention_received(q, k, arguments)
            if layer in self._received:
                before = self._received[layer]
                got[..., : before.shape[-1]] += before
            self._received[layer] = got

    def queries(self, layer: int, rows: int) -> Tensor | None:
        """The prompt's last `rows` queries [H_q, at most rows, D]; None where none were kept."""
        kept = self._queries.get(layer)
        return None if kept is None or rows == 0 else kept[:, -rows:]

    def received(self, layer: int) -> Tensor | None:
        """float32 [H_kv, G, T], summed over the queries read; None unless asked for."""
        return self._received.get(layer)


def _attention_received(q: Tensor, k: Tensor, arguments: AttentionArguments) -> Tensor:
    """Causal attention summed over the queries: q [H_q, n, D], k [H_kv, T, D] -> float32 [H_kv, G, T]."""
    kv_heads, total, _ = k.shape
    group, n = q.shape[0] // kv_heads, q.shape[1]
    got = torch.zeros(kv_heads, group, total, device=q.device)
    sinks = arguments.sink_logits
    for start in range(0, n, _QUERY_BLOCK):
        rows = q[:, start : start + _QUERY_BLOCK]
        m = rows.shape[1]
        last = total - n + start + m  # positions that any of these rows may look at
        logits = attention_logits(
            rows.reshape(kv_heads, group * m, -1), k[:, :last], arguments.scaling, arguments.softcap
        )
        own = torch.arange(last - m, last, device=q.device).repeat(group)
        logits = logits.masked_fill(torch.arange(last, device=q.device)[None] > own[:, None], -torch.inf)
        per_row = None if sinks is None else sinks.view(kv_heads, group, 1).expand(-1, -1, m).reshape(kv_heads, -1)
        weights = attention_weights(logits, per_row)
        got[..., :last] += weights.view(kv_heads, group, m, last).sum(2)
    return got
