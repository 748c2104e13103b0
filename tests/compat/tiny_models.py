"""Tiny causal LMs with random weights, one an architecture: an odd vocabulary, windows of a few positions, GQA."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

WINDOW = 6  # positions a sliding layer sees; the tests' texts are several times as long

_COMMON = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ALTERNATING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2}

# name -> (what its config sets beyond the common part, whether sdpa can run it)
TINY = {
    "qwen3": ({}, True),
    "qwen2": ({"use_sliding_window": True, **_ALTERNATING}, True),
    "llama": ({}, True),
    "mistral": ({"sliding_window": WINDOW}, True),
    "gemma2": ({"query_pre_attn_scalar": 5, "attn_logit_softcapping": 0.5, **_ALTERNATING}, False),
    "gemma3_text": ({"query_pre_attn_scalar": 5, **_ALTERNATING}, True),
    "phi3": ({"sliding_window": WINDOW, "head_dim": None}, True),
    "mixtral": ({**_EXPERTS, "sliding_window": WINDOW}, True),
    "gpt_oss": ({**_EXPERTS, **_ALTERNATING}, False),
    "olmo2": ({}, True),
    "gpt_neox": ({}, True),
    "stablelm": ({}, True),
}


def tiny_config(name: str, **over):
    """The config of one of `TINY`, or of another model type, with `over` on top."""
    fields = {**_COMMON, **TINY.get(name, ({}, True))[0], **over}
    config = AutoConfig.for_model(name, **{key: value for key, value in fields.items() if value is not None})
    config.tie_word_embeddings = False
    return config


def tiny_model(name: str, implementation: str = "eager", **over) -> PreTrainedModel:
    """A float32 model in eval mode whose logits spread enough for a wrong mask to show."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(tiny_config(name, **over), attn_implementation=implementation)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
    if name == "gpt_oss":
        for layer in model.model.layers:
            layer.self_attn.sinks.data.normal_(0.0, 1.0, generator=generator)
    return model.eval().requires_grad_(False).float()
