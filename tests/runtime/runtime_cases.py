"""Small models, prompts and settings shared by the runtime's tests. On a GPU the same tests run compiled and captured."""

import torch

from sfi_lab.runtime import Engine, EngineOptions
from sfi_lab.settings import Settings

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FULL = {
    "llama": {"num_hidden_layers": 3},
    "qwen3": {},
    "qwen2": {"use_sliding_window": False, "sliding_window": None, "layer_types": ["full_attention"] * 2},
    "mistral": {"sliding_window": None},
}
if DEVICE == "cuda":  # compiled matrix products need 16 numbers a head
    FULL = {name: {"head_dim": 16, "hidden_size": 96, **over} for name, over in FULL.items()}


def moved(lab):
    """The lab on this machine's device."""
    lab.model.to(DEVICE)
    lab.device = torch.device(DEVICE)
    return lab


def prompts(lab, lengths, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, lab.spec.vocab_size, (n,), generator=generator).tolist() for n in lengths]


def periodic(**over):
    """K well below J, slow steps whose places no text decides."""
    fields = {"sink": 2, "recent": 8, "k": 12, "trigger": "period", "period": 5, "t_max": 9, "prefill_window": 4}
    return Settings.paper(**(fields | over))


def engine(lab, settings, batch, length=128, **options):
    """An engine with pages of 16."""
    return Engine(lab.model, lab.spec, settings, batch, length, options=EngineOptions(page_size=16, **options))


def reasons(result):
    return [step.reason for step in result.steps]
