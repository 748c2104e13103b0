"""Models that slow and fast steps cannot decode, refused by name from their config, before any weights are read."""

from transformers import PreTrainedConfig

from sfi_lab.compat import causal_class
from sfi_lab.errors import SfiError

# transformers' words for layers whose queries look at stored keys by position -> ours
LAYER_KINDS = {"full_attention": "full", "sliding_attention": "sliding", "chunked_attention": "chunked"}

# What must be one number for the whole model; newer configs can hold one a layer
_EVEN = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "kv_lora_rank",
    "sliding_window",
    "attention_chunk_size",
)


def refuse_unsupported(config: PreTrainedConfig) -> None:
    """Raise SfiError, with the model's name and the reason, if its config already tells that it cannot be decoded."""
    reason = _reason(config)
    if reason:
        names = getattr(config, "architectures", None) or [config.model_type]
        raise SfiError(f"{names[0]} cannot be decoded with slow and fast steps: {reason}.")


def _reason(config: PreTrainedConfig) -> str | None:
    if config.is_encoder_decoder:
        return "it is an encoder-decoder model"
    model_class = causal_class(config)
    if model_class is None:
        return "transformers knows no causal language model for it"
    if config.get_text_config() is not config:
        return "it is a multi-modal model; load its language model alone"
    if uneven := [field for field in _EVEN if _is_uneven(config, field)]:
        return f"its layers differ in {', '.join(uneven)}"
    if getattr(config, "kv_lora_rank", None):
        return "it compresses keys and values (multi-head latent attention, kv_lora_rank)"
    if unfit := sorted(set(getattr(config, "layer_types", None) or ()) - LAYER_KINDS.keys()):
        return f"it has layers of the kind {', '.join(unfit)}; only {', '.join(LAYER_KINDS)} are possible"
    if model_class._is_stateful:
        return "it has recurrent layers, whose state holds no keys to select from"
    if getattr(config, "num_kv_shared_layers", None) or "reuse" in (getattr(config, "kv_sharing_modes", None) or ()):
        return "some of its layers use the keys and values of other layers"
    if not model_class._supports_attention_backend:
        return "its attention does not go through transformers' attention registry"
    return None


def _is_uneven(config: PreTrainedConfig, field: str) -> bool:
    """A config with a value a layer refuses to name one for the model, which getattr's default does not catch."""
    try:
        getattr(config, field, None)
    except RuntimeError:
        return True
    return False
