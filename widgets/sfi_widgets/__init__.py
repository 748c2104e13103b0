"""Panels of sfi_lab for JupyterLab and Voilà: linked, live, and each usable alone. Every output carries a picture of the panel
for viewers that run no widgets.

| name | what |
|---|---|
| `Workbench(trace, lab=None)` | all panels, linked |
| `TextView(trace)` | generated text and document, with what a head keeps |
| `SupportMap(trace)` | steps × positions of a layer and head |
| `SelectionPanel(trace)` | what the selector kept, now and as recorded |
| `RunStrip(trace)` | the run: slow steps, sentences, a metric, the brush |
| `HeadNavigator(trace)` | every layer and KV head, coloured by a metric |
| `Compare(a, b)` | two settings on a trace, or two traces: selections, numbers, tokens |
| `SelectorAnatomy(trace)` | one refresh stage by stage; what soft-NMS and exclusivity moved |
| `StabilityPanel(trace)` | supports within a sentence against across its end |
| `SlowStepTiming(trace)` | milliseconds by stage, fast against slow |
| `MethodsPanel(results)` | methods at equal budgets: quality against keys read, and where each fails |
| `Controls(trace)` | the settings |
| `DecodeAgain(trace)` | a new run beside the recorded one |
| `LabState` | the choices, as plain traitlets |

A panel's module is imported when its name is first used: what one panel needs (torch, matplotlib) isn't loaded for another's sake.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compare import Compare
    from .controls import Controls
    from .decode_again import DecodeAgain
    from .head_navigator import HeadNavigator
    from .methods_panel import MethodsPanel
    from .run_strip import RunStrip
    from .selection_panel import SelectionPanel
    from .selector_anatomy import SelectorAnatomy
    from .session import Reselection, Session
    from .slow_step_timing import SlowStepTiming
    from .stability_panel import StabilityPanel
    from .state import MEAN, LabState
    from .support_map import SupportMap
    from .text_view import TextView
    from .workbench import Workbench

_HOME = {
    "MEAN": "state",
    "Compare": "compare",
    "Controls": "controls",
    "DecodeAgain": "decode_again",
    "HeadNavigator": "head_navigator",
    "LabState": "state",
    "MethodsPanel": "methods_panel",
    "Reselection": "session",
    "RunStrip": "run_strip",
    "SelectionPanel": "selection_panel",
    "SelectorAnatomy": "selector_anatomy",
    "Session": "session",
    "SlowStepTiming": "slow_step_timing",
    "StabilityPanel": "stability_panel",
    "SupportMap": "support_map",
    "TextView": "text_view",
    "Workbench": "workbench",
}

__all__ = [
    "MEAN",
    "Compare",
    "Controls",
    "DecodeAgain",
    "HeadNavigator",
    "LabState",
    "MethodsPanel",
    "Reselection",
    "RunStrip",
    "SelectionPanel",
    "SelectorAnatomy",
    "Session",
    "SlowStepTiming",
    "StabilityPanel",
    "SupportMap",
    "TextView",
    "Workbench",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
