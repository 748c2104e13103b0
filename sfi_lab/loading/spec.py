"""`ModelSpec`: what the decoder, the selector and the engine must know of a model."""

from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedModel

from sfi_lab.compat import eos_ids
from sfi_lab.errors import SfiError
from sfi_lab.loading.probe import Probe, probe
from sfi_lab.loading.refusals import LAYER_KINDS, refuse_unsupported

LayerKind = Literal["full", "sliding", "chunked"]


@dataclass(frozen=True)
class ModelSpec:
    """Shapes and layer kinds of a causal LM; every field is measured on the model where it can be."""

    architecture: str  # class name, e.g. "LlamaForCausalLM"
    n_layers: int
    n_query_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int | None  # positions the model was made for; None if its config does not say
    layer_kinds: tuple[LayerKind, ...]  # one a layer
    sliding_window: int | None  # keys a sliding layer sees, the newest included; the chunk's length for chunked layers
    eos_ids: tuple[int, ...]
    attention_arguments: tuple[str, ...]  # keyword arguments its layers really give to attention

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.n_query_heads // self.n_kv_heads

    @classmethod
    def from_model(cls, model: PreTrainedModel) -> "ModelSpec":
        """Measure a model with two tiny forward calls. Raises SfiError, naming the model, for one that cannot be decoded."""
        config, name = model.config, type(model).__name__
        refuse_unsupported(config)
        if model.get_output_embeddings() is None:
            raise SfiError(f"{name} is no causal language model: it has no layer that gives logits.")
        max_positions = getattr(config, "max_position_embeddings", None)
        window = getattr(config, "sliding_window", None)
        chunk = getattr(config, "attention_chunk_size", None)
        seen = probe(model, config.num_hidden_layers, _held(window, chunk, max_positions))
        first = _same_shape(name, seen)
        kinds = tuple(
            _kind(name, layer, call.visible, seen.held, window, chunk) for layer, call in enumerate(seen.step)
        )
        _check_config(name, config, kinds)
        return cls(
            architecture=name,
            n_layers=config.num_hidden_layers,
            n_query_heads=first.query_heads,
            n_kv_heads=first.kv_heads,
            head_dim=first.head_dim,
            vocab_size=model.get_output_embeddings().weight.shape[0],
            max_positions=max_positions,
            layer_kinds=kinds,
            sliding_window=chunk if "chunked" in kinds else window if "sliding" in kinds else None,
            eos_ids=eos_ids(model),
            attention_arguments=tuple(sorted(set().union(*(call.arguments for call in seen.prompt + seen.step)))),
        )


def _held(window: int | None, chunk: int | None, max_positions: int | None) -> int:
    """Positions to pretend: beyond any window and off a chunk's edge, inside what the model has positions for."""
    held = 2 * max(window or 0, chunk or 0, 16) + 3
    return min(held, max_positions - 1) if max_positions else held


def _same_shape(name: str, seen: Probe):
    first = seen.prompt[0]
    for call in seen.prompt:
        if not call.causal:
            raise SfiError(f"{name} is not a causal model: a token of layer {call.layer} sees tokens after it.")
        if call.value_dim != call.head_dim:
            raise SfiError(
                f"{name} has keys of {call.head_dim} and values of {call.value_dim} numbers; they must be equally long."
            )
        if (call.query_heads, call.kv_heads, call.head_dim) != (first.query_heads, first.kv_heads, first.head_dim):
            raise SfiError(f"{name} has layers of different head counts or sizes (layer {call.layer}).")
    return first


def _kind(name: str, layer: int, visible: tuple[int, int], held: int, window, chunk) -> LayerKind:
    """Read the kind off the keys that the query at position `held` may look at (keys 0 .. held, itself included).

    The probe's cache hands on only the new key, so `visible` of a layer without mask is (0, 1): everything.
    """
    start, count = visible
    if visible in ((0, 1), (0, held + 1)):
        return "full"
    if start + count == held + 1:
        if window is not None and count == window:
            return "sliding"
        if chunk is not None and start == held // chunk * chunk:
            return "chunked"
    raise SfiError(f"{name} masks layer {layer} in a way that is neither full, sliding nor chunked.")


def _check_config(name: str, config, kinds: tuple[LayerKind, ...]) -> None:
    """The config's word must agree with what was seen, else one of both was misread."""
    stated = getattr(config, "layer_types", None)
    for layer, (kind, word) in enumerate(zip(kinds, stated or (), strict=False)):
        # a window longer than the model's positions never shows
        if LAYER_KINDS[word] != kind and kind != "full":
            raise SfiError(f"{name} calls layer {layer} {word}, but it attends as a {kind} one.")
