"""A prompt read once with dense attention, from which any number of sessions may start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.decoder.forward import forward
from sfi_lab.decoder.prompt import Prompt, encode
from sfi_lab.decoder.prompt_facts import PromptFacts
from sfi_lab.decoder.state import DecoderState
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.lab import Lab

PREFILL_CHUNK = 2048  # prompt tokens a forward; bounds the memory of activations and masks
_ROWS = 64  # queries kept a layer: as many as the longest observation window in use


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt's cache, and all that a first step may want to know of it; given to `generate` in a prompt's place.

    ids: the prompt. cache: dense K/V of all of it. facts: its last queries and, where asked for, the attention that each
    position got. logits: float [V] of its last position. Sessions copy the cache, so one that was read serves many.
    """

    ids: tuple[int, ...]
    cache: SequenceCache
    facts: PromptFacts
    logits: Tensor

    @classmethod
    def read(cls, lab: Lab, prompt: Prompt, rows: int = _ROWS, accumulates: bool = False) -> ReadPrompt:
        """Reads text, messages or ids. rows: last queries kept a layer; accumulates: sum the attention received, for H2O.

        Raises SfiError for a prompt that is empty or longer than the model's context.
        """
        ids = encode(lab.tokenizer, prompt, lab.spec.vocab_size)
        if lab.spec.max_positions and len(ids) > lab.spec.max_positions:
            raise SfiError(
                f"the prompt has {len(ids)} tokens, the model's context {lab.spec.max_positions}; shorten the prompt"
            )
        state = DecoderState(lab.spec.layer_kinds, Settings.dense())
        state.prompt = PromptFacts(rows, accumulates)
        with lab.decoding():
            logits = read_chunks(lab, state, ids)
        return cls(tuple(ids), state.cache, state.prompt, logits)

    def check(self, rows: int, accumulates: bool) -> None:
        """Raises SfiError if a session needs more of the prompt than was kept."""
        if rows > self.facts.rows or (accumulates and not self.facts.accumulates):
            need = f"rows={rows}" + (", accumulates=True" if accumulates else "")
            raise SfiError(
                f"this method needs more of the prompt than was kept: read it with ReadPrompt.read(…, {need})"
            )


def read_chunks(lab: Lab, state: DecoderState, ids: Sequence[int]) -> Tensor:
    """Feeds a prompt's ids to a state in chunks; logits [V] of the last position."""
    for start in range(0, len(ids), PREFILL_CHUNK):
        logits = forward(lab, state, ids[start : start + PREFILL_CHUNK])
    return logits
