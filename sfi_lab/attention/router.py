"""The function that stands in transformers' attention registry: sends each call down the path its step is on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
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

    def saw_prompt(self, layer: int, q: Tensor, arguments: AttentionArguments) -> None:
        """Told the queries of a prompt, or of positions that are read again, [H_q, n, D]."""


class AttentionRouter:
    """Callable with transformers' attention signature; the rows of a forward are sequences, each with a state of its own.

    `active` are the states whose step this thread is computing, a row each; q and k arrive after the model's own norm and
    RoPE. Where there is none - between steps, or in a thread without a run - the caller uses the model himself and gets
    ordinary attention, in batches of any size.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._running = threading.local()

    @property
    def active(self) -> Sequence[StepAttention]:
        """The states that this thread's forward belongs to."""
        return getattr(self._running, "states", ())

    @active.setter
    def active(self, states: Sequence[StepAttention]) -> None:
        self._running.states = states

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
        """query [B, H_q, n, D], key and value [B, H_kv, T, D] -> ([B, n, H_q, D_v], None); in a run B counts the states."""
        arguments = read_arguments(self.model, query.shape[-1], scaling, extra)
        layer, (rows, heads, n, dim), kv_heads = module.layer_idx, query.shape, key.shape[1]
        active = self.active
        if n == 1 and active and all(state.decodes(layer) for state in active):
            outs = [
                state.decode(layer, query[b].view(kv_heads, heads // kv_heads, dim), arguments).reshape(1, heads, -1)
                for b, state in enumerate(active)
            ]
            return (torch.stack(outs) if rows > 1 else outs[0][None]), None
        for state in active:  # one: only decode steps of whole-prefix layers are taken together
            state.saw_prompt(layer, query[0], arguments)
        how = (arguments.scaling, arguments.softcap, arguments.sink_logits)
        outs = []
        for b in range(rows):
            mask = None if attention_mask is None else attention_mask[b % len(attention_mask), 0, :, : key.shape[2]]
            outs.append(masked_attention(query[b], key[b], value[b], mask, *how))
        out = torch.stack(outs) if rows > 1 else outs[0][None]
        return out.transpose(1, 2).contiguous(), None
