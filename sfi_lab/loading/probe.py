"""What a model's attention really does, seen in two small forward calls rather than read from its config.

The first call (three tokens, empty cache) shows shapes, causality and whether each layer stores its keys once and attends
once. The second (one token, a cache that says it holds many positions but stores none) shows which keys a layer may look
at: its mask is that of a full, a sliding or a chunked layer. Attention itself is replaced by zeros in both.
"""

from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel

from sfi_lab.compat import KVCache, attention_function, call_model
from sfi_lab.errors import SfiError

_PROMPT = 3


@dataclass
class Seen:
    """One attention call."""

    layer: int
    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    keys: int  # keys handed to attention
    causal: bool  # the newest query sees no key after it, and no earlier query does
    visible: tuple[int, int]  # first key the newest query may look at (-1: none), and how many
    arguments: set[str]  # keyword arguments that are neither None nor False


@dataclass
class Recorder:
    """An attention function that looks at its arguments and answers with zeros."""

    calls: list[Seen] = field(default_factory=list)

    def __call__(self, module, query, key, value, attention_mask=None, **arguments):
        causal, visible = _read_mask(attention_mask, module, query.shape[2], key.shape[2], arguments.get("is_causal"))
        self.calls.append(
            Seen(
                layer=int(module.layer_idx),
                query_heads=query.shape[1],
                kv_heads=key.shape[1],
                head_dim=query.shape[3],
                value_dim=value.shape[3],
                keys=key.shape[2],
                causal=causal,
                visible=visible,
                arguments={name for name, given in arguments.items() if given is not None and given is not False},
            )
        )
        return value.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[3]), None


def _read_mask(mask, module, q: int, kv: int, is_causal: bool | None) -> tuple[bool, tuple[int, int]]:
    if mask is None:
        causal = q == 1 or (getattr(module, "is_causal", True) if is_causal is None else is_causal)
        return bool(causal), (0, kv)
    allowed = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
    future = torch.ones_like(allowed).triu(allowed.shape[1] - q + 1)
    last = allowed[-1].nonzero()[:, 0]
    return not bool((allowed & future).any()), (int(last[0]) if len(last) else -1, len(last))


class _CountingCache(KVCache):
    """Says it holds `held` positions, stores nothing, and counts what each layer hands in."""

    def __init__(self, n_layers: int, held: int):
        super().__init__(n_layers)
        self.held = held
        self.appended: list[int] = []

    def append(self, layer_idx, k, v):
        self.appended.append(layer_idx)
        return k, v

    def length(self, layer_idx=0):
        return self.held


@dataclass
class Probe:
    """What both calls showed: one entry a layer, in layer order."""

    prompt: list[Seen]
    step: list[Seen]
    held: int  # positions the second call's cache said it held


def probe(model: PreTrainedModel, n_layers: int, held: int) -> Probe:
    """Run both calls. Raises SfiError, naming the model, if attention and cache are not used once a layer."""
    name = type(model).__name__
    device = next(model.parameters()).device
    seen = []
    with torch.no_grad():
        for start, length in ((0, _PROMPT), (held, 1)):
            recorder, cache = Recorder(), _CountingCache(n_layers, start)
            positions = torch.arange(start, start + length, device=device)[None]
            with attention_function(model, "probe", recorder):
                call_model(model, torch.ones_like(positions), cache, positions)
            _check_calls(name, n_layers, recorder, cache)
            seen.append(sorted(recorder.calls, key=lambda call: call.layer))
    return Probe(prompt=seen[0], step=seen[1], held=held)


def _check_calls(name: str, n_layers: int, recorder: Recorder, cache: _CountingCache) -> None:
    expected = list(range(n_layers))
    attended = sorted(call.layer for call in recorder.calls)
    if attended != expected:
        odd = sorted(set(expected).symmetric_difference(attended)) or attended
        raise SfiError(
            f"{name} does not attend exactly once in each of its {n_layers} layers through transformers' registry "
            f"(layers {_some(odd)}), so its steps cannot be made sparse."
        )
    if sorted(cache.appended) != expected:
        odd = sorted(set(expected).symmetric_difference(cache.appended)) or cache.appended
        raise SfiError(
            f"{name} does not store keys and values once in each of its {n_layers} layers (layers {_some(odd)}): "
            "layers that share them cannot be served."
        )


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
