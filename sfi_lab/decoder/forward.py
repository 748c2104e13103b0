"""The model's forward for one sequence, and for several in lock step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.compat import KVCache, call_model

if TYPE_CHECKING:
    from sfi_lab.decoder.state import DecoderState
    from sfi_lab.lab import Lab


@torch.inference_mode()
def forward(lab: Lab, state: DecoderState, ids: Sequence[int]) -> Tensor:
    """The model on new ids after what `state` has cached; logits [V] of the last."""
    first = state.length
    with lab.attending(state):
        input_ids = torch.tensor([list(ids)], device=lab.device)
        positions = torch.arange(first, first + len(ids), device=lab.device)[None]
        return call_model(lab.model, input_ids, state.cache, positions)[0, -1]


@torch.inference_mode()
def forward_together(lab: Lab, states: Sequence[DecoderState], ids: Sequence[int]) -> list[Tensor]:
    """One token of each sequence, lengths as they are, in one forward of the model; logits [V] of each.

    Linear layers see all rows at once, attention each row with its own cache. Models with layers that keep a window of
    their own get each row in a forward of its own, because their windows come from a mask that assumes equal lengths.
    """
    if len(states) == 1 or set(lab.spec.layer_kinds) != {"full"}:
        return [forward(lab, state, [token]) for state, token in zip(states, ids, strict=True)]
    with lab.attending(*states):
        input_ids = torch.tensor(ids, device=lab.device)[:, None]
        positions = torch.tensor([state.length for state in states], device=lab.device)[:, None]
        logits = call_model(lab.model, input_ids, _Together(states), positions)
    return list(logits[:, -1])


class _Together(KVCache):
    """The caches of several sequences as one: each row's K/V go to its own; attention finds them there."""

    def __init__(self, states: Sequence[DecoderState]) -> None:
        super().__init__(len(states[0].cache.full))
        self._states = states

    def append(self, layer_idx: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k, v [B, H_kv, 1, D] -> the same: the router asks each state for all of its own."""
        for b, state in enumerate(self._states):
            state.cache.full[layer_idx].append(k[b], v[b])
        return k, v

    def length(self, layer_idx: int = 0) -> int:
        """0: what attention is handed are the new positions alone."""
        return 0
