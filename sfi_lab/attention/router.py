"""The function that stands in transformers' attention registry: sends each call down the path its step is on."""

from __future__ import annotations

from typing import Any, Protocol

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
    """Callable with transformers' attention signature, for one sequence (batch 1) at a time.

    `active` is the state whose step is being computed; q and k arrive after the model's own norm and RoPE. Between
    steps it is None, and a caller's own use of the model gets ordinary attention.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.active: StepAttention | None = None

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
        """query [1, H_q, n, D], key and value [1, H_kv, T, D] -> ([1, n, H_q, D_v], None)."""
        arguments = read_arguments(self.model, query.shape[-1], scaling, extra)
        layer, (_, heads, n, dim) = module.layer_idx, query.shape
        if n == 1 and self.active is not None and self.active.decodes(layer):
            kv_heads = key.shape[1]
            out = self.active.decode(layer, query.view(kv_heads, heads // kv_heads, dim), arguments)
            return out.reshape(1, 1, heads, -1), None
        if n > 1 and self.active is not None:
            self.active.saw_prompt(layer, query[0])
        mask = None if attention_mask is None else attention_mask[0, 0, :, : key.shape[2]]
        out = masked_attention(
            query[0], key[0], value[0], mask, arguments.scaling, arguments.softcap, arguments.sink_logits
        )
        return out.transpose(0, 1)[None].contiguous(), None
