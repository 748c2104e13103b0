"""The GPU runtime: a paged cache, steps captured in CUDA graphs, and the selector on a second stream.

| file | what |
|---|---|
| `engine.py` | `Engine`: a batch of sequences from prompts to tokens |
| `batch.py`, `classes.py` | what a batch gives back; enders, openers and EOS as bits by token id |
| `state.py` | what each sequence carries from step to step, on the device; the rules of routes |
| `memory_plan.py`, `paged.py` | memory planned before it is taken; the paged cache and the packed memory |
| `forward.py`, `weights.py` | a step through the model's modules, or through its layers in six launches each; reading prompts |
| `attention.py` | a layer's attention, and on slow steps its selector on the second stream |
| `graphs.py`, `sampling.py`, `ops/` | capture and replay; drawing tokens; small fused operations |
| `run.py`, `pool.py`, `choice.py` | a `Session`'s run through the engine, the engines a Lab lends, which path runs and why |
| `profile.py` | a step's timeline by stream and stage |
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfi_lab.runtime.batch import BatchResult
    from sfi_lab.runtime.engine import Engine, EngineOptions
    from sfi_lab.runtime.memory_plan import MemoryPlan
    from sfi_lab.runtime.sampling import Sampling

_HOME = {
    "BatchResult": "batch",
    "Engine": "engine",
    "EngineOptions": "engine",
    "MemoryPlan": "memory_plan",
    "Sampling": "sampling",
}

__all__ = ["BatchResult", "Engine", "EngineOptions", "MemoryPlan", "Sampling"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"sfi_lab.runtime.{_HOME[name]}"), name)
    raise AttributeError(f"module 'sfi_lab.runtime' has no attribute {name!r}")
