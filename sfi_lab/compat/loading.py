"""Reading and writing checkpoints and tokenizers through transformers, without its chatter."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as hf_logging


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, log lines below an error or Python warnings from transformers while the context lasts."""
    hub = logging.getLogger("huggingface_hub")
    level, hub_level, bars = hf_logging.get_verbosity(), hub.level, hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity(logging.ERROR)
    hub.setLevel(logging.ERROR)
    hf_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hf_logging.set_verbosity(level)
        hub.setLevel(hub_level)
        if bars:
            hf_logging.enable_progress_bar()


def read_config(source: str | Path, local: bool = True) -> PreTrainedConfig:
    """The config of a folder or hub id; local: without asking the network.

    Raises OSError (not found) or ValueError (unknown architecture).
    """
    with quiet():
        return AutoConfig.from_pretrained(source, local_files_only=local)


def causal_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class transformers would build for this config as a causal LM; None if it has none."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return None
    found = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    return found[0] if isinstance(found, tuple) else found


def read_model(source: str | Path, dtype: torch.dtype, local: bool = True) -> PreTrainedModel:
    """The causal LM of a folder or hub id, on the CPU, in `dtype`, in eval mode and without gradients."""
    with quiet():
        return frozen(AutoModelForCausalLM.from_pretrained(source, dtype=dtype, local_files_only=local))


def read_tokenizer(source: str | Path, local: bool = True) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub id."""
    with quiet():
        return AutoTokenizer.from_pretrained(source, local_files_only=local)


def write_checkpoint(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write config, generation config, safetensors weights and tokenizer as `read_model` and `read_tokenizer` want them."""
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def frozen(model: PreTrainedModel) -> PreTrainedModel:
    """The model itself, in eval mode and without gradients."""
    return model.eval().requires_grad_(False)
