"""`Lab`: a loaded model with everything needed to decode on it and to record what it attends to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from sfi_lab.attention import AttentionRouter, check_arguments
from sfi_lab.compat import attention_function
from sfi_lab.decoder import Result, Session, Step
from sfi_lab.decoder.prompt import Prompt
from sfi_lab.decoder.state import DecoderState
from sfi_lab.loading import Loaded, load_model
from sfi_lab.methods import Method
from sfi_lab.sentences import TokenTable
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from sfi_lab.runtime.pool import EnginePool


class Lab:
    """A model, its tokenizer and its facts (`spec`); decode with `generate`, `stream` or a `session`."""

    def __init__(self, loaded: Loaded) -> None:
        self.name, self.source, self.spec = loaded.name, loaded.source, loaded.spec
        check_arguments(self.spec.architecture, self.spec.attention_arguments)
        self.model: PreTrainedModel = loaded.model
        self.tokenizer = loaded.tokenizer
        self.device, self.dtype = torch.device(loaded.device), loaded.dtype
        self._router = AttentionRouter(self.spec.architecture)
        self._lock = threading.RLock()
        self._registered = ExitStack()
        self._said: set[str] = set()
        self._users = 0

    @cached_property
    def tokens(self) -> TokenTable:
        """The text of every vocabulary entry, decoded once."""
        return TokenTable.from_tokenizer(self.tokenizer)

    @cached_property
    def engines(self) -> EnginePool:
        """The engines that runs on a GPU take turns with."""
        from sfi_lab.runtime.pool import EnginePool

        return EnginePool()

    def say(self, line: str) -> None:
        """Logs a line, once."""
        if line not in self._said:
            self._said.add(line)
            logging.getLogger("sfi_lab").info(line)

    def session(self, settings: Settings | None = None, method: str | Method = "sfi") -> Session:
        """A conversation with its own cache; `Settings.paper()` where none are given.

        method: another way to decode than SFI, by name and parameters ("snapkv:window=16") or as a `Method`; its budget
        is the settings' sink + recent + K unless it says otherwise. `sfi_lab.methods` lists them.
        """
        return Session(self, settings or Settings.paper(), method)

    def generate(
        self,
        prompt: Prompt,
        settings: Settings | None = None,
        max_new_tokens: int | None = None,
        method: str | Method = "sfi",
        **options: Any,
    ) -> Result:
        """Decodes a prompt in a new session (`Session.generate`, whose `stream` lists the options)."""
        return self.session(settings, method).generate(prompt, max_new_tokens, **options)

    def stream(
        self,
        prompt: Prompt,
        settings: Settings | None = None,
        max_new_tokens: int | None = None,
        method: str | Method = "sfi",
        **options: Any,
    ) -> Iterator[Step]:
        """The same, step by step (`Session.stream`)."""
        return self.session(settings, method).stream(prompt, max_new_tokens, **options)

    def __repr__(self) -> str:
        spec = self.spec
        return (
            f"Lab({self.name}: {spec.architecture}, {spec.n_layers} layers, {spec.n_query_heads} query and "
            f"{spec.n_kv_heads} KV heads, {spec.max_positions:,} positions, {self.dtype}, {self.device})"
        )

    # used by the decoder -------------------------------------------------------------------------------------------

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """While any run lasts, the model's attention goes through the router; afterwards it is as it was."""
        with self._lock:
            if self._users == 0:
                self._registered.enter_context(attention_function(self.model, "sfi_lab", self._router))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._registered.close()

    @contextmanager
    def attending(self, *states: DecoderState) -> Iterator[None]:
        """One forward belongs to these states, a row each (none: to an engine); runs of several threads take turns."""
        with self._lock:
            self._router.active = states
            try:
                yield
            finally:
                self._router.active = ()


def load(
    name: str = "smollm2-135m", device: str = "auto", dtype: str | torch.dtype = "auto", progress: bool = True
) -> Lab:
    """Loads a model: the bundled default, a Hugging Face id (hub or local cache), a folder, or a .gguf file.

    device: "auto" is CUDA where there is one. dtype: "auto" is float32 on a CPU. See `sfi_lab.loading.load_model` for
    the errors; an architecture that this decoder can't serve is refused by name.
    """
    return Lab(load_model(name, device, dtype, progress))
