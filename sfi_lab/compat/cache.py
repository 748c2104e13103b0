"""The smallest object a model accepts as its KV cache; what is stored, and where, is a subclass's business."""

from abc import abstractmethod

import torch
from transformers import Cache

from sfi_lab.errors import SfiError


class KVCache(Cache):
    """Base of our caches: subclasses say `append` and `length`, models see a transformers cache.

    Every layer is taken to hold all positions from 0 on, sliding ones too: their window comes from the mask. Keys
    arrive after the model's norm and RoPE, once a layer and forward call.
    """

    def __init__(self, n_layers: int):
        # transformers' own storage stays empty: everything that would read it is overridden below
        super().__init__(layers=[])
        self.n_layers = n_layers

    @abstractmethod
    def append(self, layer_idx: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store k, v [B, Hkv, q, D] of the newest q positions of one layer; return what attention is to be given.

        Usually the keys and values [B, Hkv, length + q, D] of all positions. The lengths must be those `get_mask_sizes`
        announced, or the model's mask does not fit.
        """
        raise NotImplementedError

    @abstractmethod
    def length(self, layer_idx: int = 0) -> int:
        """Positions stored for a layer."""
        raise NotImplementedError

    # what models and transformers' mask functions call

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        return self.append(layer_idx, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length(layer_idx)

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.length(layer_idx)

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """(keys that attention will be given, absolute position of the first of them)."""
        return self.length(layer_idx) + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1  # transformers' word for "no maximum"

    def __len__(self) -> int:
        return self.n_layers

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_layers={self.n_layers}, length={self.length(0)})"

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * self.n_layers

    @property
    def is_linear(self) -> list[bool]:
        return [False] * self.n_layers

    @property
    def is_dummy(self) -> list[bool]:
        return [False] * self.n_layers

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return True

    @property
    def is_croppable(self) -> bool:
        return False

    # With transformers' storage empty, the inherited versions would do nothing and say nothing.

    def reset(self):
        self._refuse("reset")

    def crop(self, *args, **kwargs):
        self._refuse("crop")

    def reorder_cache(self, beam_idx):
        self._refuse("beam search (reorder_cache)")

    def batch_repeat_interleave(self, repeats):
        self._refuse("batch_repeat_interleave")

    def batch_select_indices(self, indices):
        self._refuse("batch_select_indices")

    def _refuse(self, what: str):
        raise SfiError(f"{type(self).__name__} does not support {what}.")
