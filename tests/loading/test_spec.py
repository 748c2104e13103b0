"""What is measured on a model, and which models are refused by name."""

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoConfig

from sfi_lab.errors import SfiError
from sfi_lab.loading import ModelSpec, refuse_unsupported
from tiny_models import TINY, WINDOW, tiny_config, tiny_model

KINDS = {
    "qwen3": ("full", "full"),
    "qwen2": ("sliding", "full"),
    "llama": ("full", "full"),
    "mistral": ("sliding", "sliding"),
    "gemma2": ("sliding", "full"),
    "gemma3_text": ("sliding", "full"),
    "phi3": ("sliding", "sliding"),
    "mixtral": ("sliding", "sliding"),
    "gpt_oss": ("sliding", "full"),
    "olmo2": ("full", "full"),
}


@pytest.mark.parametrize("name", KINDS)
def test_shapes_and_kinds(name):
    model = tiny_model(name, "sdpa" if TINY[name][1] else "eager")
    spec = ModelSpec.from_model(model)
    head_dim = 4 if name == "phi3" else 8
    assert spec.architecture == type(model).__name__
    assert (spec.n_layers, spec.n_query_heads, spec.n_kv_heads, spec.head_dim) == (2, 6, 2, head_dim)
    assert (spec.vocab_size, spec.max_positions, spec.eos_ids, spec.group_size) == (97, 128, (2,), 3)
    assert spec.layer_kinds == KINDS[name]
    assert spec.sliding_window == (WINDOW if "sliding" in KINDS[name] else None)
    assert "scaling" in spec.attention_arguments
    assert ("softcap" in spec.attention_arguments) == (name == "gemma2")
    assert ("s_aux" in spec.attention_arguments) == (name == "gpt_oss")


def test_chunked_layers():
    over = {"attention_chunk_size": 8, "layer_types": ["chunked_attention", "full_attention"], "no_rope_layers": [1, 0]}
    over |= {"num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 16, "rope_parameters": None}
    spec = ModelSpec.from_model(tiny_model("llama4_text", "sdpa", **over))
    assert (spec.layer_kinds, spec.sliding_window) == (("chunked", "full"), 8)


def test_looking_leaves_the_model_as_it_was():
    model, ids = tiny_model("mistral", "sdpa"), torch.arange(3, 20)[None]
    before = model(ids).logits
    ModelSpec.from_model(model)
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(model(ids).logits, before, rtol=0, atol=0)


REFUSED = {
    "t5": ({}, "encoder-decoder"),
    "bart": ({}, "encoder-decoder"),
    "vit": ({}, "no causal language model"),
    "gemma3": ({}, "multi-modal"),
    "deepseek_v2": ({}, "latent attention"),
    "deepseek_v3": ({}, "latent attention"),
    "mamba": ({}, "linear_attention"),
    "rwkv": ({}, "recurrent"),
    "jamba": ({}, "linear_attention"),
    "recurrent_gemma": ({}, "linear_attention|recurrent"),
    "qwen3_next": ({}, "linear_attention"),
    "lfm2": ({"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2}, "conv"),
    "gemma3n_text": ({}, "keys and values of other layers"),
    "bloom": ({}, "registry"),
    "stablelm": ({}, "registry"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_before_weights_are_read(name):
    over, reason = REFUSED[name]
    with pytest.raises(SfiError, match=reason) as caught:
        refuse_unsupported(AutoConfig.for_model(name, **over))
    assert str(caught.value).startswith(f"{name} cannot be decoded")


@pytest.mark.skipif(
    "dots3_note_text" not in CONFIG_MAPPING, reason="this transformers has no config with a value a layer"
)
def test_a_config_with_a_value_a_layer_is_refused():
    with pytest.raises(SfiError, match=r"dots3_note_text cannot be decoded .*: its layers differ in .*kv_lora_rank"):
        refuse_unsupported(AutoConfig.for_model("dots3_note_text"))


def test_the_architectures_own_name_is_used_where_it_is_known():
    with pytest.raises(SfiError, match=r"^MyModel cannot"):
        refuse_unsupported(AutoConfig.for_model("t5", architectures=["MyModel"]))


def test_a_bidirectional_model_is_seen_by_what_it_does():
    with pytest.raises(SfiError, match="BertLMHeadModel is not a causal model"):
        ModelSpec.from_model(tiny_model("bert", "sdpa", is_decoder=False))


def test_a_model_without_logits_is_refused():
    with pytest.raises(SfiError, match="LlamaModel is no causal language model"):
        ModelSpec.from_model(tiny_model("llama", "sdpa").model)


def test_a_mask_of_another_kind_is_seen(monkeypatch):
    model = tiny_model("llama", "sdpa")
    decode = model.model.forward

    def every_second_key(input_ids, **arguments):
        held = (arguments.get("cache") or arguments["past_key_values"]).get_seq_length()
        mask = torch.ones(1, 1, input_ids.shape[1], held + input_ids.shape[1], dtype=torch.bool).tril(held)
        mask[..., 1::2] = False
        return decode(input_ids, **{**arguments, "attention_mask": mask})

    monkeypatch.setattr(model.model, "forward", every_second_key)
    with pytest.raises(
        SfiError, match="LlamaForCausalLM masks layer 0 in a way that is neither full, sliding nor chunked"
    ):
        ModelSpec.from_model(model)


def test_a_layer_that_attends_under_anothers_number_is_seen():
    model = tiny_model("llama", "sdpa")
    model.model.layers[1].self_attn.layer_idx = 0
    with pytest.raises(
        SfiError, match=r"LlamaForCausalLM does not attend exactly once in each of its 2 layers .*layers 1"
    ):
        ModelSpec.from_model(model)


def test_a_layer_without_keys_of_its_own_is_seen():
    model = tiny_model("llama", "sdpa")
    attention = model.model.layers[1].self_attn
    forward = attention.forward

    def keyless(*args, **kwargs):
        names = [name for name in ("cache", "past_key_values") if name in kwargs]
        return forward(*args, **{**kwargs, **dict.fromkeys(names)})

    attention.forward = keyless
    with pytest.raises(SfiError, match="does not store keys and values once in each of its 2 layers"):
        ModelSpec.from_model(model)


def test_layers_of_different_shape_are_seen():
    model = tiny_model("llama", "sdpa")
    other = tiny_model("llama", "sdpa", num_key_value_heads=3).model.layers[1]
    model.model.layers[1] = other
    other.self_attn.config = model.config
    with pytest.raises(SfiError, match=r"different head counts or sizes \(layer 1"):
        ModelSpec.from_model(model)


def test_a_supported_config_passes():
    refuse_unsupported(tiny_config("qwen3"))
