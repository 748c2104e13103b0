"""The weights of models whose layers the fused step knows, with q/k/v and gate/up each in one matrix.

The model keeps working: its own parameters become views of the merged matrices, so nothing is stored twice and nothing
has to be undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Pre-norm decoder layers of one shape: RMSNorm, q/k/v with RoPE over the whole head, SwiGLU, no norm behind a block.
FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_STEADY_ROPE = ("default", "linear", "llama3", "yarn")  # tables that don't depend on how long the text is


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer."""

    input_norm: Tensor  # [hidden]
    qkv: Tensor  # [(H_q + 2 H_kv) · D, hidden]
    qkv_bias: Tensor | None
    q_norm: Tensor | None  # [D]
    k_norm: Tensor | None
    out: Tensor  # [hidden, H_q · D]
    out_bias: Tensor | None
    mlp_norm: Tensor  # [hidden]
    gate_up: Tensor  # [2 · intermediate, hidden]
    gate_up_bias: Tensor | None
    down: Tensor  # [hidden, intermediate]
    down_bias: Tensor | None
    scale: float


@dataclass(frozen=True)
class StackWeights:
    """The whole model, and RoPE for every position."""

    embedding: Tensor  # [V, hidden]
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [hidden]
    head: Tensor  # [V, hidden]
    eps: float
    cos: Tensor  # [positions, D], in the model's dtype as its layers get it
    sin: Tensor


def why_not_fused(model: PreTrainedModel) -> str | None:
    """Why this model's layers can't be run by the fused step; None if they can."""
    name, config = type(model).__name__, model.config
    if name not in FAMILIES:
        return f"{name} is not one of {', '.join(FAMILIES)}"
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") not in _STEADY_ROPE:
        return f"its RoPE is of the kind {rope['rope_type']}"
    if getattr(config, "hidden_act", None) not in ("silu", "swish"):
        return f"its activation is {config.hidden_act}"
    layer = model.model.layers[0]
    parts = [layer.self_attn.q_proj, layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.down_proj, model.lm_head]
    if any(type(part) is not nn.Linear for part in parts):
        return "its projections are not plain linear layers (quantised or adapted weights)"
    if model.lm_head.bias is not None:
        return "its output head has a bias"
    return None


def stack_weights(model: PreTrainedModel, positions: int) -> StackWeights:
    """Merges (once; a second call finds the parameters merged) and collects. positions: length of the RoPE table."""
    inner = model.model
    weight = inner.embed_tokens.weight
    where = torch.arange(positions, device=weight.device)[None]
    cos, sin = inner.rotary_emb(weight[:1], where)
    return StackWeights(
        weight, tuple(_layer(layer) for layer in inner.layers), inner.norm.weight, model.lm_head.weight,
        inner.norm.variance_epsilon, cos[0].contiguous(), sin[0].contiguous(),
    )  # fmt: skip


def _layer(layer: Any) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
    norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
    q_norm, k_norm = (None if norm is None else norm.weight for norm in norms)
    return LayerWeights(
        layer.input_layernorm.weight, merged([part.weight for part in qkv]), merged([part.bias for part in qkv]),
        q_norm, k_norm, attention.o_proj.weight, attention.o_proj.bias, layer.post_attention_layernorm.weight,
        merged([mlp.gate_proj.weight, mlp.up_proj.weight]), merged([mlp.gate_proj.bias, mlp.up_proj.bias]),
        mlp.down_proj.weight, mlp.down_proj.bias, attention.scaling,
    )  # fmt: skip


def merged(parts: list[nn.Parameter | None]) -> Tensor | None:
    """One tensor with the parts below each other; the parameters become views of it. None without parts."""
    if parts[0] is None:
        return None
    rows = sum(part.shape[0] for part in parts)
    first = parts[0].data
    whole = first.as_strided((rows, *first.shape[1:]), first.stride()) if _adjoining(parts) else None
    if whole is not None:
        return whole
    whole = torch.cat([part.data for part in parts])
    for part, view in zip(parts, whole.split([part.shape[0] for part in parts]), strict=True):
        part.data = view
    return whole


def _adjoining(parts: list[nn.Parameter]) -> bool:
    """True if the parts lie in one storage, one behind the other: merged before."""
    end = parts[0].data_ptr()
    storage = parts[0].untyped_storage().data_ptr()
    for part in parts:
        if part.data_ptr() != end or part.untyped_storage().data_ptr() != storage or not part.is_contiguous():
            return False
        end += part.numel() * part.element_size()
    return True
