"""Which path decodes, and why: the engine on a GPU, or the reference loop."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import torch

from sfi_lab.errors import SfiError

if TYPE_CHECKING:
    from sfi_lab.lab import Lab
    from sfi_lab.settings import Settings

ENGINES = ("auto", "reference", "graph")


def why_not_here(device: torch.device) -> str | None:
    """Why no model can use the engine on this device; None if it can."""
    if device.type != "cuda":
        return "there is no CUDA device" if not torch.cuda.is_available() else f"the model is on the {device.type}"
    return None if importlib.util.find_spec("triton") else "triton is missing"


def why_not_for(lab: Lab, settings: Settings) -> str | None:
    """Why this model with these settings can't use the engine on any device; None if it can."""
    spec = lab.spec
    if odd := sorted(set(spec.layer_kinds) - {"full"}):
        return f"{spec.architecture} has {' and '.join(odd)} layers"
    if "s_aux" in spec.attention_arguments:
        return f"{spec.architecture} has sink logits in its softmax"
    if not 16 <= spec.head_dim <= 256 and lab.device.type == "cuda":
        return f"{spec.architecture} has heads of {spec.head_dim} numbers; the kernels take 16 to 256"
    if settings.trigger == "drift":
        return "the drift trigger needs every step's queries on the host"
    if settings.rectify:
        return "rectified slow steps read several positions at once"
    if settings.layer_groups > 1 and settings.recent_mode == "pinned":
        return "a pinned window with layer groups starts at another position in each group"
    return None


def why_reference(lab: Lab, settings: Settings, recorded: bool, engine: str, rule: str | None = None) -> str | None:
    """Why a run takes the reference loop; None: it takes the engine.

    rule: the name of a method with a rule of its own, which the engine doesn't know.
    engine: "auto", "reference", or "graph" (the engine wherever the model allows it, on a CPU step by step with the
    reference kernels). Raises SfiError for another word, or where "graph" was asked for and can't be.
    """
    if engine not in ENGINES:
        raise SfiError(f"engine = {engine!r} is not allowed; allowed: {', '.join(ENGINES)}")
    if engine == "reference":
        return "it was asked for"
    why = why_not_for(lab, settings)
    why = why or (f"the method {rule} reads by a rule of its own" if rule else None)
    why = why or ("recorded runs are instrumented" if recorded else None)
    if engine == "graph":
        if why:
            raise SfiError(f"the engine can't make this run: {why}")
        return None
    return why_not_here(lab.device) or why
