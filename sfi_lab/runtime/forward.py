"""One decode step's forward for a whole batch: the model's own modules, or its layers in few launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from sfi_lab.attention.arguments import AttentionArguments, read_arguments
from sfi_lab.attention.prefill import masked_attention
from sfi_lab.compat import attention_function, call_model
from sfi_lab.runtime.attention import StepAttention
from sfi_lab.runtime.ops import Stream, embed, linear, rope_write
from sfi_lab.runtime.paged import PagedCache
from sfi_lab.runtime.state import BatchState
from sfi_lab.runtime.weights import LayerWeights, StackWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SMALL_MASK = 1 << 22  # entries of an explicit mask that cost nothing worth saving


class PlainForward:
    """The Hugging Face model as it is: attention through the registry, K/V through the cache object."""

    def __init__(self, model: PreTrainedModel, cache: PagedCache) -> None:
        self.model, self.cache = model, cache
        self._attention: StepAttention | None = None

    def __call__(self, state: BatchState, attention: StepAttention) -> Tensor:
        self._attention = attention
        with (
            attention_function(self.model, "sfi_runtime", self._attend),
            self.cache.writing(state.position, announced=1),
        ):
            return call_model(self.model, state.tokens[:, None].long(), self.cache, state.position[:, None].long())[
                :, -1
            ]

    def _attend(
        self, module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, scaling: Any = None, **extra: Any
    ):
        """q [B, H_q, 1, D]; the keys are in the pages already, and every layer looks at all of them."""
        del v, mask
        batch, heads, _, dim = q.shape
        arguments = read_arguments(type(self.model).__name__, dim, scaling, extra)
        out = self._attention(
            module.layer_idx, q.reshape(batch, k.shape[1], -1, dim), arguments.scaling, arguments.softcap
        )
        return out.view(batch, 1, heads, dim), None


class FusedForward:
    """The same layers in six launches each: projection with norm, RoPE with cache write, attention, projection with
    residual, gate and up with norm and activation, down with residual.

    Instead of `torch.compile` over the modules: the norms, activations and residuals that the compiler would fuse into
    kernels of their own ride in the projections' launches, nothing is compiled per model, and a graph is captured in
    a second. Same result as `PlainForward` up to rounding (the same bits with plain torch operations).
    """

    def __init__(self, weights: StackWeights, cache: PagedCache, pdl: bool = True, backend: str | None = None) -> None:
        self.weights, self.cache = weights, cache
        self._how: dict[str, Any] = {"pdl": pdl, "backend": backend, "eps": weights.eps}

    def __call__(self, state: BatchState, attention: StepAttention) -> Tensor:
        w = self.weights
        norms = [layer.input_norm for layer in w.layers] + [w.norm]
        stream = embed(state.tokens, w.embedding, norms[0], self._how["backend"])
        for i, layer in enumerate(w.layers):
            stream = self._layer(i, layer, stream, norms[i + 1], state, attention)
        return linear(stream, w.head, **self._how)

    def _layer(
        self, i: int, w: LayerWeights, stream: Stream, next_norm: Tensor, state: BatchState, attention: StepAttention
    ) -> Stream:
        """One decoder layer; `next_norm` is the first norm of what follows."""
        cache, how = self.cache, self._how
        qkv = linear(stream, w.qkv, bias=w.qkv_bias, **how)
        q = rope_write(
            qkv, self.weights.cos, self.weights.sin, state.position, cache.k_pages[i], cache.v_pages[i], cache.tables,
            cache.norms[i], q_norm=w.q_norm, k_norm=w.k_norm, **how,
        )  # fmt: skip
        attended = attention(i, q, w.scale).view(len(qkv), -1)
        stream = linear(attended, w.out, bias=w.out_bias, residual=stream.hidden, next_norm=w.mlp_norm, **how)
        act = linear(stream, w.gate_up, bias=w.gate_up_bias, gated=True, **how)
        return linear(act, w.down, bias=w.down_bias, residual=stream.hidden, next_norm=next_norm, **how)


@torch.inference_mode()
def read_prompt(
    model: PreTrainedModel,
    cache: PagedCache,
    sequence: int,
    ids: list[int],
    first: int,
    window: int,
    chunk: int,
) -> tuple[Tensor, dict[int, Tensor]]:
    """Reads a prompt into one sequence's pages, in chunks, with dense attention through torch's SDPA.

    Args:
        ids: new tokens; position `first` is the first one's, everything before lies in the cache.
        window: queries to keep (W - 1). chunk: tokens a forward.

    Returns:
        logits [V] of the last position; the last `window` queries by layer [H_q, ≤ window, D].
    """
    device = cache.tables.device
    kept: dict[int, Tensor] = {}
    done = first

    def attend(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, scaling: Any = None, **extra: Any):
        del mask
        layer, n = module.layer_idx, q.shape[2]
        arguments = read_arguments(type(model).__name__, q.shape[3], scaling, extra)
        if window:
            before = kept.get(layer)
            kept[layer] = (q[0] if before is None else torch.cat([before, q[0]], dim=1))[:, -window:].clone()
        if done:  # the chunk's own rows are in the pages as well
            k, v = (rows[None] for rows in cache.rows(layer, sequence, done + n))
        return prompt_attention(q, k, v, arguments).transpose(1, 2), None

    logits = None
    with attention_function(model, "sfi_prompt", attend):
        for start in range(0, len(ids), chunk):
            part = torch.tensor([ids[start : start + chunk]], device=device)
            done = first + start
            where = torch.arange(done, done + part.shape[1], device=device)[None]
            at = torch.tensor([done], dtype=torch.int32, device=device)
            with cache.writing(at, sequence, announced=done):
                logits = call_model(model, part, cache, where)[0, -1]
    return logits, kept


def prompt_attention(q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments) -> Tensor:
    """Causal attention of the last n of T positions. q [1, H_q, n, D], k and v [1, H_kv, T, D] -> [1, H_q, n, D].

    Where a mask of n · T entries would be large, torch's lower-right causal bias says the same without one.
    """
    n, total, scale = q.shape[2], k.shape[2], arguments.scaling
    if n == 1 or n == total or arguments.softcap is not None or n * total <= _SMALL_MASK:
        return masked_attention(q[0], k[0], v[0], None, scale, arguments.softcap)[None]
    if (
        q.shape[1] != k.shape[1]
    ):  # the bias takes equal head counts; repeated heads of one layer are small beside the cache
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(n, total), scale=scale)
