"""What a model hands its attention function: honoured, known to be harmless, or refused by name - never dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sfi_lab.errors import SfiError

# Said elsewhere already (the mask carries window and causality; RoPE is in q and k) or nothing to do with attention.
_HARMLESS = frozenset(
    {"sliding_window", "position_ids", "cache_position", "use_cache", "num_items_in_batch", "output_hidden_states",
     "output_router_logits", "logits_to_keep", "return_dict", "labels"}
)  # fmt: skip
_HARMLESS_WHEN_FALSE = frozenset({"dropout", "output_attentions"})


_IMPLEMENTED = frozenset({"scaling", "softcap", "s_aux", "is_causal"})


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """The arguments that change the arithmetic of one call."""

    scaling: float
    softcap: float | None = None
    sink_logits: Tensor | None = None  # [H_q], one learned logit per query head that joins the softmax's denominator


def read_arguments(model: str, head_dim: int, scaling: float | None, extra: dict[str, Any]) -> AttentionArguments:
    """Sorts the keyword arguments of one attention call.

    Raises:
        SfiError: an argument that would change the result and isn't implemented, with its name and the model's.
    """
    softcap, sink_logits = None, None
    for name, value in extra.items():
        if name == "softcap":
            softcap = value
        elif name == "s_aux":
            sink_logits = value
        elif (
            value is None
            or name in _HARMLESS
            or (name in _HARMLESS_WHEN_FALSE and not value)
            or (name == "is_causal" and value is True)
        ):
            continue
        else:
            raise _refusal(model, name)
    return AttentionArguments(head_dim**-0.5 if scaling is None else scaling, softcap, sink_logits)


def check_arguments(model: str, names: Iterable[str]) -> None:
    """Refuses a model, before anything is decoded, whose attention is given an argument that isn't implemented.

    names: the keyword arguments that its layers were seen to hand over (`ModelSpec.attention_arguments`).
    """
    for name in names:
        if name not in _IMPLEMENTED | _HARMLESS | _HARMLESS_WHEN_FALSE:
            raise _refusal(model, name)


def _refusal(model: str, name: str) -> SfiError:
    return SfiError(
        f"{model} hands its attention the argument {name!r}, which this decoder does not implement; it is refused "
        "rather than ignored (implemented: scaling, softcap, s_aux and the mask)"
    )
