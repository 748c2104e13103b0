"""Which logits processors a generation config means, built from transformers' public classes."""

import torch
import transformers as hf
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

from sfi_lab.errors import SfiError

# field -> the values that ask for nothing. Everything else would change the output in a way we do not implement.
_UNSUPPORTED = {
    "num_beams": (None, 1),
    "num_beam_groups": (None, 1),
    "num_return_sequences": (None, 1),
    "diversity_penalty": (None, 0.0),
    "constraints": (None,),
    "force_words_ids": (None,),
    "penalty_alpha": (None, 0.0),
    "dola_layers": (None,),
    "guidance_scale": (None, 1, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "prompt_lookup_num_tokens": (None, 0),
    "assistant_early_exit": (None, 0),
    "is_assistant": (None, False),
    "use_mtp": (None, False),
    "speculation_type": (None,),
    "token_healing": (None, False),
    "watermarking_config": (None,),
    "stop_strings": (None, [], ()),
    "max_time": (None,),
}

# What generate() fills in for a field left empty. Only top_k differs from "off".
_DEFAULT_TOP_K = 50


def logits_processors(
    generation_config: GenerationConfig,
    prompt_length: int,
    eos_ids: tuple[int, ...],
    device: torch.device | str,
    handled: tuple[str, ...] = (),
) -> LogitsProcessorList:
    """The processors `model.generate` would apply, in its order; each maps (ids [B, n], scores [B, V]) to scores [B, V].

    prompt_length: tokens before the first generated one. eos_ids: ids that end the text; min_length and its kind
    suppress them. handled: unsupported fields that the caller takes care of itself (e.g. "stop_strings"). Warpers
    (temperature, top_k, ...) apply only with do_sample. Raises SfiError naming a field that is set but not supported.
    """
    for field, off in _UNSUPPORTED.items():
        value = getattr(generation_config, field, None)
        if field not in handled and not any(value == nothing for nothing in off):
            raise SfiError(f"Generation setting {field}={value!r} is not supported; leave it out.")
    chosen = [*_processors(generation_config, prompt_length, eos_ids, device)]
    if generation_config.do_sample:
        chosen += _warpers(generation_config, device)
    if generation_config.renormalize_logits:
        chosen.append(hf.LogitNormalization())
    return LogitsProcessorList(chosen)


def _processors(g: GenerationConfig, prompt_length: int, eos_ids: tuple[int, ...], device):
    """What applies with and without sampling."""
    eos = list(eos_ids)
    if g.sequence_bias is not None:
        yield hf.SequenceBiasLogitsProcessor(sequence_bias=g.sequence_bias)
    if g.repetition_penalty not in (None, 1.0):
        yield hf.RepetitionPenaltyLogitsProcessor(penalty=g.repetition_penalty)
    if g.no_repeat_ngram_size:
        yield hf.NoRepeatNGramLogitsProcessor(g.no_repeat_ngram_size)
    if g.bad_words_ids is not None:
        yield hf.NoBadWordsLogitsProcessor(g.bad_words_ids, eos or None)
    if g.min_length and eos:
        yield hf.MinLengthLogitsProcessor(g.min_length, eos, device=device)
    if g.min_new_tokens and eos:
        yield hf.MinNewTokensLengthLogitsProcessor(prompt_length, g.min_new_tokens, eos, device=device)
    if g.forced_bos_token_id is not None:
        yield hf.ForcedBOSTokenLogitsProcessor(g.forced_bos_token_id)
    if g.forced_eos_token_id is not None:
        yield hf.ForcedEOSTokenLogitsProcessor(_last_length(g, prompt_length), g.forced_eos_token_id, device=device)
    if g.remove_invalid_values:
        yield hf.InfNanRemoveLogitsProcessor()
    if g.exponential_decay_length_penalty is not None:
        yield hf.ExponentialDecayLengthPenalty(g.exponential_decay_length_penalty, eos, prompt_length)
    if g.suppress_tokens is not None:
        yield hf.SuppressTokensLogitsProcessor(g.suppress_tokens, device=device)
    if g.begin_suppress_tokens is not None:
        first = prompt_length if prompt_length > 1 or g.forced_bos_token_id is None else prompt_length + 1
        yield hf.SuppressTokensAtBeginLogitsProcessor(g.begin_suppress_tokens, first, device=device)


def _warpers(g: GenerationConfig, device):
    """What reshapes the distribution before a draw."""
    if g.temperature not in (None, 1.0):
        yield hf.TemperatureLogitsWarper(g.temperature)
    if g.top_h is not None:
        yield hf.TopHLogitsWarper(top_h=g.top_h)
    if top_k := (_DEFAULT_TOP_K if g.top_k is None else g.top_k):
        yield hf.TopKLogitsWarper(top_k=top_k)
    if g.top_p is not None and g.top_p < 1.0:
        yield hf.TopPLogitsWarper(top_p=g.top_p)
    if g.min_p is not None:
        yield hf.MinPLogitsWarper(min_p=g.min_p)
    if g.typical_p is not None and g.typical_p < 1.0:
        yield hf.TypicalLogitsWarper(mass=g.typical_p)
    if g.epsilon_cutoff is not None and 0.0 < g.epsilon_cutoff < 1.0:
        yield hf.EpsilonLogitsWarper(epsilon=g.epsilon_cutoff)
    if g.eta_cutoff is not None and 0.0 < g.eta_cutoff < 1.0:
        yield hf.EtaLogitsWarper(epsilon=g.eta_cutoff, device=device)


def _last_length(g: GenerationConfig, prompt_length: int) -> int:
    """Length of prompt and answer together at which generation is cut off."""
    if g.max_new_tokens is not None:
        return prompt_length + g.max_new_tokens
    if g.max_length is not None:
        return g.max_length
    raise SfiError("Generation setting forced_eos_token_id needs max_new_tokens or max_length beside it.")


def eos_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Every end-of-text id of the generation config and the model config, each once, in that order; () if none."""
    found: dict[int, None] = {}
    for source in (getattr(model, "generation_config", None), model.config, model.config.get_text_config()):
        ids = getattr(source, "eos_token_id", None)
        for token in ids if isinstance(ids, list | tuple) else [ids]:
            if token is not None:
                found.setdefault(int(token))
    return tuple(found)
