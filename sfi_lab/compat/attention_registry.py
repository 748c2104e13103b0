"""An attention function for one session: registered under a name of its own, and taken back on exit."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from sfi_lab.errors import SfiError

# transformers looks for these words inside an implementation's name and then takes it for a kernel of its own
_TAKEN = ("flash", "flex", "sdpa", "eager", "paged")


class _SessionMask:
    """The mask function of one session: sdpa's own, plus what the session replaced.

    It sits in the mask registry, so sessions that end in another order than they began still find each other there:
    no list of live sessions is kept anywhere else.
    """

    def __init__(self, previous: list[tuple[object, str | None]]):
        self.previous = previous  # [(config, implementation before this session)]
        self.build = AttentionMaskInterface()["sdpa"]

    def __call__(self, *args, **kwargs):
        return self.build(*args, **kwargs)


@contextmanager
def attention_function(model: PreTrainedModel, name: str, function: Callable) -> Iterator[str]:
    """Run `model` with `function` as its attention while the context lasts; yields the registered name.

    function(module, query [B, Hq, q, D], key [B, Hkv, kv, D], value [B, Hkv, kv, D], attention_mask, **kwargs)
    -> (output [B, q, Hq, D], weights or None), called once a layer, after the model's norms and RoPE. attention_mask
    is sdpa's: bool [B, 1, q, kv] with True where the query may look, or None, which means causal (kv == q) or
    everything (q == 1). Sliding and chunked layers therefore get the mask of their own window.

    The name is unique to the session, so sessions nest, and two that overlap on one model may end in either order:
    a session that ends gives the model the implementation it would have without that session. Raises SfiError for a
    model whose attention does not go through transformers' registry.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or any(word in name.lower() for word in _TAKEN):
        raise SfiError(
            f"Attention name {name!r} cannot be used: give letters, digits and underscores, without {', '.join(_TAKEN)}."
        )
    if not getattr(model, "_supports_attention_backend", False):
        raise SfiError(f"{type(model).__name__} does not send its attention through transformers' registry.")

    key = f"{name}_{uuid.uuid4().hex[:12]}"
    configs = _configs(model)
    mask = _SessionMask([(config, config._attn_implementation) for config in configs])
    AttentionInterface.register(key, function)
    AttentionMaskInterface.register(key, mask)
    try:
        for config in configs:
            config._attn_implementation = key
        yield key
    finally:
        _restore(key, mask)
        _unregister(AttentionInterface, key)
        _unregister(AttentionMaskInterface, key)


def _configs(model: nn.Module) -> list:
    """The distinct configs that the model's parts read their implementation from, outermost first."""
    found = {id(model.config): model.config}
    for part in model.modules():
        config = vars(part).get("config")  # getattr on a module without one costs ten times as much
        if config is not None and hasattr(config, "_attn_implementation"):
            found.setdefault(id(config), config)
    return list(found.values())


def _restore(key: str, mask: _SessionMask) -> None:
    """Give every config what it had before; where a later session is still running, correct what that one will restore."""
    masks = AttentionMaskInterface()
    for config, before in mask.previous:
        if config._attn_implementation == key:
            config._attn_implementation = before
            continue
        later = masks.get(config._attn_implementation)
        while isinstance(later, _SessionMask):
            names = [implementation for owner, implementation in later.previous if owner is config]
            if key in names:
                later.previous = [(c, before if c is config else i) for c, i in later.previous]
                break
            later = masks.get(names[0]) if names else None


def _unregister(interface: type, key: str) -> None:
    # register() has no public counterpart, and deleting an item reaches only an instance's local overrides
    interface._global_mapping.pop(key, None)
