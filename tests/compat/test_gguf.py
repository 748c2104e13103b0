"""A GGUF file written here, tensor by tensor, gives the model it was written from."""

import gguf
import numpy as np
import pytest
import torch

from sfi_lab.compat import read_gguf, read_gguf_config
from sfi_lab.errors import SfiError
from tiny_models import tiny_model

_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
SPECIALS = ["<end>", "<start>", "<stop>"]
SHAPE = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}


def byte_characters() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(shifted)) for byte in range(256)]


def interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF keeps the two halves that RoPE turns together side by side."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def write_gguf(path, model, without: str | None = None) -> None:
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    tokens = SPECIALS + byte_characters() + ["Ġt", "th"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS)))
    writer.add_token_merges(["Ġ t", "t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    for name, weight in model.state_dict().items():
        layer, _, short = name.removeprefix("model.layers.").partition(".")
        inner = _NAMES.get(name) or f"blk.{layer}.{_NAMES[short]}"
        if "q_proj" in name or "k_proj" in name:
            weight = interleaved(weight, weight.shape[0] // config.head_dim)
        if inner != without:
            writer.add_tensor(inner, np.ascontiguousarray(weight.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def tiny():
    return tiny_model("llama", "sdpa", vocab_size=len(SPECIALS) + 258, **SHAPE)


def test_weights_and_config(tiny, tmp_path, capfd):
    write_gguf(tmp_path / "tiny.gguf", tiny)
    assert read_gguf_config(tmp_path / "tiny.gguf").num_hidden_layers == 2
    model, _ = read_gguf(tmp_path / "tiny.gguf", torch.float32)
    ids = torch.tensor([[5, 17, 200, 3, 9, 80]])
    torch.testing.assert_close(model(ids).logits, tiny(ids).logits, atol=1e-5, rtol=1e-5)
    assert not model.training
    assert read_gguf(tmp_path / "tiny.gguf", torch.bfloat16)[0].dtype == torch.bfloat16
    assert capfd.readouterr().err == ""


def test_tokenizer(tiny, tmp_path):
    write_gguf(tmp_path / "tiny.gguf", tiny)
    _, tokenizer = read_gguf(tmp_path / "tiny.gguf", torch.float32)
    specials = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token)
    assert specials == ("<start>", "<stop>", "<stop>", "<end>")
    assert tokenizer.model_max_length == 128
    for text in (" the ▁ tab\t", "漢字 🙂\n", "a<stop>b"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text
    assert len(tokenizer(" t", add_special_tokens=False).input_ids) == 1


@pytest.mark.parametrize("missing", ["blk.1.ffn_up.weight", "output_norm.weight"])
def test_a_file_that_lacks_a_weight_is_refused(tiny, tmp_path, missing):
    write_gguf(tmp_path / "tiny.gguf", tiny, without=missing)
    with pytest.raises(SfiError, match=r"tiny\.gguf lacks 1 weights of LlamaForCausalLM, such as model\."):
        read_gguf(tmp_path / "tiny.gguf", torch.float32)
