"""sfi_lab: a workbench for Slow-Fast Inference (arXiv 2603.12038). Table of contents of the public names:

| name | what |
|---|---|
| `load(name)` | a model, ready to decode: a `Lab` with `generate`, `stream` and `session` |
| `Settings` | every knob, with the presets `paper()`, `released()` and `dense()` |
| `Trace.open(path)` | a recorded run |
| `selector.select` | the selector's equations, every stage kept |
| `whatif(trace, settings)`, `LayerReplay` | a recorded run under other settings, no model needed |
| `stability`, `fidelity`, `timing` | what traces say; more in `sfi_lab.analysis` |
| `tune(traces, target)` | the settings that keep the most for the fewest keys; more in `sfi_lab.studies` |
| `SfiError` | the errors that a person is meant to read |

Heavy names are imported on first use, so `import sfi_lab` stays quick for those who only read traces.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sfi_lab.errors import SfiError

if TYPE_CHECKING:
    from sfi_lab import selector
    from sfi_lab.analysis import LayerReplay, WhatIf, fidelity, stability, timing, whatif
    from sfi_lab.decoder import Result, Session, Step
    from sfi_lab.lab import Lab, load
    from sfi_lab.settings import Settings
    from sfi_lab.studies import tune
    from sfi_lab.trace import Trace

__version__ = "0.1.0"

_HOME = {
    "Lab": "sfi_lab.lab",
    "LayerReplay": "sfi_lab.analysis",
    "Result": "sfi_lab.decoder",
    "Session": "sfi_lab.decoder",
    "Settings": "sfi_lab.settings",
    "Step": "sfi_lab.decoder",
    "Trace": "sfi_lab.trace",
    "WhatIf": "sfi_lab.analysis",
    "fidelity": "sfi_lab.analysis",
    "load": "sfi_lab.lab",
    "stability": "sfi_lab.analysis",
    "timing": "sfi_lab.analysis",
    "tune": "sfi_lab.studies",
    "whatif": "sfi_lab.analysis",
}

__all__ = [
    "Lab",
    "LayerReplay",
    "Result",
    "Session",
    "Settings",
    "SfiError",
    "Step",
    "Trace",
    "WhatIf",
    "fidelity",
    "load",
    "selector",
    "stability",
    "timing",
    "tune",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name == "selector":
        return importlib.import_module("sfi_lab.selector")
    raise AttributeError(f"module 'sfi_lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
