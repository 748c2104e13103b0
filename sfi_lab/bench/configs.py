"""Named model shapes with random weights: for speed only the shapes matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sfi_lab.errors import SfiError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_QWEN3 = {"model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8, "vocab_size": 151936, "rope_theta": 1e6}
_LLAMA3 = {"model_type": "llama", "num_key_value_heads": 8, "vocab_size": 128256, "rope_theta": 5e5}

# From each model's published config.json; tied says whether the output head is the embedding.
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": {**_QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "tied": True},
    "qwen3-1.7b": {**_QWEN3, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16, "tied": True},
    "qwen3-4b": {**_QWEN3, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "tied": True},
    "qwen3-8b": {**_QWEN3, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32, "tied": False},
    "qwen2.5-1.5b": {
        "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "vocab_size": 151936, "rope_theta": 1e6, "use_sliding_window": False, "tied": True,
    },
    "llama-3.2-1b": {**_LLAMA3, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64, "tied": True},
    "llama-3.1-8b": {**_LLAMA3, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "head_dim": 128, "tied": False},
    "smollm2-135m": {
        "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49152, "rope_theta": 1e5, "tied": True,
    },
    "tiny": {
        "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256, "rope_theta": 1e4, "tied": True,
    },
}  # fmt: skip


def shape_of(name: str) -> dict[str, Any]:
    """The shape of a named config. Raises SfiError listing the known ones."""
    if name not in CONFIGS:
        raise SfiError(f"config {name!r} is not known; known: {', '.join(CONFIGS)}")
    return CONFIGS[name]


def random_model(name: str, positions: int, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The named architecture with random weights, made on the device; `positions` replaces what its config allows."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from sfi_lab.compat.loading import frozen

    fields = dict(shape_of(name))
    kind, tied, theta = fields.pop("model_type"), fields.pop("tied"), fields.pop("rope_theta")
    config = AutoConfig.for_model(
        kind, **fields, max_position_embeddings=positions, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        return frozen(AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa"))
