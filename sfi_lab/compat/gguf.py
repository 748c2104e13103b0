"""How a GGUF file becomes a model and its tokenizer.

`from_pretrained(gguf_file=...)` wants one more package (accelerate) only to place the tensors, so they are unpacked with
transformers' GGUF reader and handed over as a state dict. The tokenizers that releases build from a GGUF file differ: the
special tokens are set from the file's own ids, and byte-level tokenizers get a byte-level decoder.
"""

from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from tokenizers import decoders
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
    load_gguf_checkpoint,
)

from sfi_lab.compat.loading import frozen, quiet
from sfi_lab.errors import SfiError

_SPECIAL = ("bos", "eos", "unk", "pad")


def read_gguf_config(path: Path) -> PreTrainedConfig:
    """The model config that a GGUF file describes. Raises ValueError for an architecture transformers cannot read."""
    with quiet():
        return AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)


def read_gguf(path: Path, dtype: torch.dtype) -> tuple[PreTrainedModel, Tokenizer]:
    """(causal LM, tokenizer) of a GGUF file, its quantised weights unpacked to `dtype`, on the CPU."""
    config = read_gguf_config(path)
    with quiet():
        with torch.device("meta"):  # names and shapes only
            empty = AutoModelForCausalLM.from_config(config, dtype=dtype)
        fields = load_gguf_checkpoint(str(path), return_tensors=False)
        tensors = _unpack(path, fields, empty, dtype)
        _check_names(path, empty, tensors)
        model = type(empty).from_pretrained(None, config=config, state_dict=tensors, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    _set_tokenizer(tokenizer, fields.get("tokenizer", {}), config.max_position_embeddings)
    return frozen(model), tokenizer


def _unpack(path: Path, fields: dict, empty: PreTrainedModel, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The file's tensors under the model's names; transformers' processors undo what GGUF does to an architecture's weights.

    load_gguf_checkpoint(return_tensors=True) does the same, but shows a progress bar that cannot be switched off.
    """
    reader = GGUFReader(str(path))
    architecture = reader.fields["general.architecture"].contents()
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=fields["config"])
    names = get_gguf_hf_weights_map(empty, processor)
    fields["tensors"] = {}  # processors that split a tensor (experts) put the pieces here themselves
    for tensor in reader.tensors:
        done = processor.process(
            weights=dequantize(tensor.data, tensor.tensor_type),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters=fields,
        )
        if done.name in names:
            fields["tensors"][names[done.name]] = torch.from_numpy(np.array(done.weights)).to(dtype)
    return fields["tensors"]


def _check_names(path: Path, empty: PreTrainedModel, tensors: dict[str, torch.Tensor]) -> None:
    """A weight the file lacks would be filled with random numbers; only a tied output layer may be missing."""
    tied = {"lm_head.weight"} if empty.config.tie_word_embeddings else set()
    missing = {name for name, _ in empty.named_parameters()} - tensors.keys() - tied
    if missing:
        raise SfiError(f"{path.name} lacks {len(missing)} weights of {type(empty).__name__}, such as {min(missing)}.")


def _set_tokenizer(tokenizer: Tokenizer, fields: dict, max_positions: int) -> None:
    for role in _SPECIAL:
        token_id = fields.get(f"{role}_token_id")
        if token_id is not None:
            setattr(tokenizer, f"{role}_token", tokenizer.convert_ids_to_tokens(int(token_id)))
    tokenizer.model_max_length = max_positions
    tokenizer.clean_up_tokenization_spaces = False
    if fields.get("tokenizer_type") == "gpt2":  # GGUF's word for byte-level BPE
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
