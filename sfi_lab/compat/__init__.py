"""The only room that knows one transformers release from another.

| file | what it keeps to itself |
|---|---|
| `attention_registry.py` | how an attention function is registered for one session, and taken back |
| `cache.py` | what a model asks of a KV cache |
| `forward.py` | what a model's forward call is called with |
| `sampling.py` | which logits processors a generation config means |
| `loading.py` | how checkpoints and tokenizers are read and written, without chatter |
| `gguf.py` | how a GGUF file becomes a model and its tokenizer |
| `versions.py` | which release is installed |
"""

from sfi_lab.compat.attention_registry import attention_function
from sfi_lab.compat.cache import KVCache
from sfi_lab.compat.forward import call_model
from sfi_lab.compat.gguf import read_gguf, read_gguf_config
from sfi_lab.compat.loading import causal_class, quiet, read_config, read_model, read_tokenizer, write_checkpoint
from sfi_lab.compat.sampling import eos_ids, logits_processors
from sfi_lab.compat.versions import OLDEST, check_transformers, transformers_version

__all__ = [
    "OLDEST",
    "KVCache",
    "attention_function",
    "call_model",
    "causal_class",
    "check_transformers",
    "eos_ids",
    "logits_processors",
    "quiet",
    "read_config",
    "read_gguf",
    "read_gguf_config",
    "read_model",
    "read_tokenizer",
    "transformers_version",
    "write_checkpoint",
]
