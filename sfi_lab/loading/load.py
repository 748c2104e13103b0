"""From a name to a model that can be decoded."""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from sfi_lab.compat import (
    check_transformers,
    read_config,
    read_gguf,
    read_gguf_config,
    read_model,
    read_tokenizer,
)
from sfi_lab.errors import SfiError
from sfi_lab.loading.default_model import default_model_folder
from sfi_lab.loading.names import DEFAULT, form_of
from sfi_lab.loading.refusals import refuse_unsupported
from sfi_lab.loading.spec import ModelSpec

_HALF = (torch.bfloat16, torch.float16)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Loaded:
    """A model ready to decode (eval mode, no gradients), its tokenizer and its spec."""

    name: str  # as asked for
    source: str  # the folder, file or hub id it came from
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    spec: ModelSpec
    device: torch.device
    dtype: torch.dtype


def load_model(
    name: str = DEFAULT, device: str = "auto", dtype: str | torch.dtype = "auto", progress: bool = True
) -> Loaded:
    """Load a model by name: a known one, a folder with config.json, a .gguf file or a Hugging Face id (org/name).

    device: "auto" is CUDA where there is one, else the CPU. dtype: "auto" is float32 on the CPU; on CUDA bfloat16 for
    checkpoints stored in 16 bit, else the stored dtype. progress: a bar on stderr while the bundled model is converted
    on its first use (about a minute; later loads take seconds). Raises SfiError for a name that is not known, a model
    that cannot be had, and one that cannot be decoded with slow and fast steps.
    """
    check_transformers()
    where = _device(device)
    form = form_of(name)
    if form == "hub":
        source, (model, tokenizer) = name, _from_hub(name, where, dtype)
    elif form == "gguf":
        source = str(Path(name).expanduser())
        model, tokenizer = _from_gguf(Path(source), where, dtype)
    else:
        folder = default_model_folder(progress) if form == "known" else Path(name).expanduser()
        source, (model, tokenizer) = str(folder), _from_folder(folder, where, dtype)
    model = model.to(where)
    return Loaded(name, source, model, tokenizer, ModelSpec.from_model(model), where, model.dtype)


def _from_folder(folder: str | Path, device: torch.device, dtype, local: bool = True):
    config = read_config(folder, local)
    refuse_unsupported(config)
    return read_model(folder, _dtype(dtype, device, config), local), read_tokenizer(folder, local)


def _from_gguf(path: Path, device: torch.device, dtype):
    try:
        config = read_gguf_config(path)
    except ValueError as error:
        raise SfiError(f"{path.name} cannot be read: {error}") from error
    refuse_unsupported(config)
    # a quantised file has no stored dtype of its own; float32 keeps what unpacking gives
    return read_gguf(path, _dtype(dtype, device, config))


def _from_hub(name: str, device: torch.device, dtype):
    """The local cache first: a model that lies there must not wait for the network."""
    try:
        return _from_folder(name, device, dtype, local=True)
    except OSError:
        pass
    try:
        return _from_folder(name, device, dtype, local=False)
    except OSError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise SfiError(
            f"Model {name!r} is neither in the local Hugging Face cache nor could it be had from the hub: {reason}. "
            "Check the id and the connection, or pass a folder with config.json or a .gguf file; with "
            "HF_HUB_OFFLINE=1 only the local cache is searched."
        ) from error


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise SfiError(f'Device {device!r} is not known; give "auto", "cpu" or "cuda".') from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise SfiError(f'Device {device!r} was asked for, but torch sees no CUDA GPU here; give "auto" or "cpu".')
    return chosen


def _dtype(dtype: str | torch.dtype, device: torch.device, config: PreTrainedConfig) -> torch.dtype:
    if dtype != "auto":
        chosen = _DTYPES.get(dtype, dtype)
        if chosen not in _DTYPES.values():
            raise SfiError(f'Dtype {dtype!r} is not possible; give "auto" or one of {", ".join(_DTYPES)}.')
        return chosen
    stored = config.dtype or torch.float32
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if stored in _HALF else stored
