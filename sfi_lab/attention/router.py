"""The function that stands in transformers' attention registry: sends each call down the path its step is on."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments, read_arguments
from sfi_lab.attention.prefill import masked_attention


class StepAttention(Protocol):
    """What one sequence's state offers the router (implemented by `sfi_lab.decoder.state.DecoderState`)."""

    def decodes(self, layer: int) -> bool:
        """True if the layer attends to the whole prefix, so that its single query may go dense or sparse."""

    def decode(self, layer: int, q: Tensor, arguments: AttentionArguments) -> Tensor:
        """Attention of one position. q [H_kv, G, D] -> [H_kv, G, D_v]."""

    def saw_prompt(self, layer: int, q: Tensor) -> None:
        """Told the queries of a prompt, [H_q, n, D]."""


class AttentionRouter:
    """Callable with transformers' attention signature; a run's sequences come one (batch 1) at a time.

    `active` is the state whose step this thread is computing; q and k arrive after the model's own norm and RoPE.
    Where it is None - between steps, or in a thread without a run - the caller uses the model himself and gets ordinary
    attention, in batches of any size.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._running = threading.local()

    @property
    def active(self) -> StepAttention | None:
        """The state that this thread's forward belongs to."""
        return getattr(self._running, "state", None)

    @active.setter
    def active(self, state: StepAttention | None) -> None:
        self._running.state = state

    def __call__(
        self,
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        scaling: float | None = None,
        **extra: Any,
    ) -> tuple[Tensor, None]:
        """query [B, H_q, n, D], key and value [B, H_kv, T, D] -> ([B, n, H_q, D_v], None); B is 1 in a run."""
        arguments = read_arguments(self.model, query.shape[-1], scaling, extra)
        layer, (_, heads, n, dim) = module.layer_idx, query.shape
        active = self.active
        if n == 1 and active is not None and active.decodes(layer):
            kv_heads = key.shape[1]
            out = active.decode(layer, query.view(kv_heads, heads // kv_heads, dim), arguments)
            return out.reshape(1, 1, heads, -1), None
        if active is not None:
            active.saw_prompt(layer, query[0])
        how = (arguments.scaling, arguments.softcap, arguments.sink_logits)
        rows = []
        for b in range(query.shape[0]):
            mask = None if attention_mask is None else attention_mask[b % len(attention_mask), 0, :, : key.shape[2]]
            rows.append(masked_attention(query[b], key[b], value[b], mask, *how))
        out = torch.stack(rows) if len(rows) > 1 else rows[0][None]
        return out.transpose(1, 2).contiguous(), None
