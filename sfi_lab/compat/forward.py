"""One forward call, in the words the installed release uses."""

import inspect
from functools import cache

import torch
from transformers import PreTrainedModel

from sfi_lab.compat.cache import KVCache
from sfi_lab.errors import SfiError


def call_model(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    cache: KVCache | None,
    position_ids: torch.Tensor,
    logits_to_keep: int = 1,
) -> torch.Tensor:
    """Logits [B, n, V] of the last n = min(logits_to_keep, q) positions (0: of all q), in the model's dtype.

    input_ids, position_ids: int64 [B, q], positions absolute and following on from the cache's length. No padding
    mask is passed: rows are all real tokens. Gradients are the caller's business.
    """
    accepted = _accepted(type(model))
    arguments = {"input_ids": input_ids, "use_cache": cache is not None, accepted["cache"]: cache}
    if accepted["position_ids"]:
        arguments["position_ids"] = position_ids
    if accepted["logits_to_keep"]:
        arguments["logits_to_keep"] = logits_to_keep
    logits = model(**arguments, return_dict=True).logits
    # a model that cannot be told keeps them all
    return logits[:, -logits_to_keep:] if logits.shape[1] > logits_to_keep > 0 else logits


@cache
def _accepted(model_class: type[PreTrainedModel]) -> dict[str, str | bool]:
    """What the class's forward takes. Releases from 5.20 or so on call the cache `cache`, older ones `past_key_values`."""
    parameters = inspect.signature(model_class.forward).parameters
    names = [name for name in ("cache", "past_key_values") if name in parameters]
    if not names:
        raise SfiError(f"{model_class.__name__} takes no KV cache, so it cannot be decoded step by step.")
    return {
        "cache": names[0],
        "position_ids": "position_ids" in parameters,
        "logits_to_keep": "logits_to_keep" in parameters,
    }
