"""Shared fixtures: a tiny random-weight Llama on a small trained tokenizer, and the real default model, once a session."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
# tiny_models, sentence_tokenizers and selector_reference serve other rooms too
for room in ("compat", "sentences", "selector"):
    if str(_HERE / room) not in sys.path:
        sys.path.insert(0, str(_HERE / room))

import pytest
import torch

from sentence_tokenizers import CORPUS, byte_level
from sfi_lab.lab import Lab, load
from sfi_lab.loading import Loaded, ModelSpec
from tiny_models import tiny_model

torch.set_num_threads(1)

CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_lab(name: str = "llama", implementation: str = "sdpa", tokenizer=None, **over) -> Lab:
    """A Lab around one of the tiny models; the tokenizer's 420 entries are the vocabulary, id 0 ends a text."""
    tokenizer = tokenizer or byte_level()
    fields = {"vocab_size": len(tokenizer), "max_position_embeddings": 512, "eos_token_id": 0, "bos_token_id": None}
    model = tiny_model(name, implementation, **{**fields, **over})
    tokenizer.chat_template = CHAT_TEMPLATE
    return Lab(
        Loaded("tiny", "memory", model, tokenizer, ModelSpec.from_model(model), torch.device("cpu"), model.dtype)
    )


@pytest.fixture(scope="session")
def lab_of():
    """Makes a Lab of any tiny architecture: lab_of("qwen3", "sdpa", num_hidden_layers=3)."""
    return make_lab


@pytest.fixture(scope="session")
def tiny_lab() -> Lab:
    """Llama, 3 layers, 6 query and 2 KV heads of 8 numbers, 512 positions, random weights. Never ends by itself soon."""
    return make_lab(num_hidden_layers=3)


@pytest.fixture(scope="session")
def real_lab() -> Lab:
    """The default model. Its steps take 50 ms on one core: for tests that need trained attention or its tokenizer."""
    return load(device="cpu", progress=False)


@pytest.fixture(scope="session")
def prose() -> str:
    """A few hundred characters of sentences, newlines, code and Chinese."""
    return "".join(CORPUS)
