"""Our processors against `model.generate`: same seed, same tokens."""

import pytest
import torch
from transformers import GenerationConfig

from plain_attention import ListCache
from sfi_lab.compat import call_model, eos_ids, logits_processors
from sfi_lab.errors import SfiError
from tiny_models import tiny_model

PROMPT = torch.tensor([[5, 9, 5, 9, 11]])
NEW = 24


def ours(model, config: GenerationConfig) -> list[int]:
    """A plain decode loop with the processors under test."""
    chosen = logits_processors(config, PROMPT.shape[1], eos_ids(model), "cpu")
    ids, cache, pending = PROMPT, ListCache(2), PROMPT
    torch.manual_seed(7)
    while ids.shape[1] < PROMPT.shape[1] + NEW:
        positions = torch.arange(ids.shape[1] - pending.shape[1], ids.shape[1])[None]
        scores = chosen(ids, call_model(model, pending, cache, positions)[:, -1].float())
        pending = torch.multinomial(scores.softmax(-1), 1) if config.do_sample else scores.argmax(-1, keepdim=True)
        ids = torch.cat([ids, pending], dim=1)
        if int(pending) in eos_ids(model):
            break
    return ids[0].tolist()


CASES = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.5},
    "ngram": {"no_repeat_ngram_size": 2},
    "suppressed": {"suppress_tokens": [48], "begin_suppress_tokens": [16], "bad_words_ids": [[40], [36, 12]]},
    "no end before": {"min_new_tokens": 20},
    "no end before length": {"min_length": 20, "exponential_decay_length_penalty": (3, 1.2)},
    "forced end": {"forced_eos_token_id": 2},
    "biased": {"sequence_bias": [[[17], 3.0]], "remove_invalid_values": True},
    "sampled with the default top_k": {"do_sample": True},
    "sampled": {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.01},
    "sampled otherwise": {"do_sample": True, "top_k": 0, "typical_p": 0.8, "renormalize_logits": True},
    "cut off": {"do_sample": True, "top_k": 0, "epsilon_cutoff": 3e-3, "eta_cutoff": 3e-3, "temperature": 1.3},
    "warpers without sampling": {"temperature": 0.2, "top_p": 0.3},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_generate(case):
    model = tiny_model("llama", "sdpa")
    config = GenerationConfig(max_new_tokens=NEW, eos_token_id=[2, 33], pad_token_id=0, **CASES[case])
    model.generation_config = config
    torch.manual_seed(7)
    want = model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), generation_config=config)[0].tolist()
    assert ours(model, config) == want


def test_the_cases_change_the_outcome():
    """A case whose processor did nothing would compare greedy with greedy."""
    model = tiny_model("llama", "sdpa")
    model.generation_config = GenerationConfig(eos_token_id=[2, 33])
    outcomes = {
        name: tuple(ours(model, GenerationConfig(max_new_tokens=NEW, **CASES[name])))
        for name in ("greedy", "repetition", "suppressed", "biased", "sampled", "sampled otherwise")
    }
    assert len(set(outcomes.values())) == len(outcomes), outcomes


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_beams", 2), ("num_return_sequences", 3), ("penalty_alpha", 0.6), ("prompt_lookup_num_tokens", 4),
     ("guidance_scale", 1.5), ("stop_strings", ["end"]), ("max_time", 2.0), ("constraints", [1]), ("dola_layers", "low")],
)  # fmt: skip
def test_an_unsupported_field_is_named(field, value):
    config = GenerationConfig()
    setattr(config, field, value)
    with pytest.raises(SfiError, match=f"{field}="):
        logits_processors(config, 3, (2,), "cpu")
    assert len(logits_processors(config, 3, (2,), "cpu", handled=(field,))) == 0


def test_forced_end_needs_a_length():
    with pytest.raises(SfiError, match="forced_eos_token_id needs max_new_tokens"):
        logits_processors(GenerationConfig(forced_eos_token_id=2), 3, (2,), "cpu")


@pytest.mark.parametrize(
    ("of_generation", "of_model", "want"),
    [([2, 33], 2, (2, 33)), (33, [2, 5], (33, 2, 5)), (None, 2, (2,)), (None, None, ()), (0, None, (0,))],
)
def test_every_end_of_text_id_is_found_once(of_generation, of_model, want):
    model = tiny_model("llama")
    model.generation_config.eos_token_id = of_generation
    model.config.eos_token_id = of_model
    assert eos_ids(model) == want
