"""Panels of sfi_lab for JupyterLab and Voilà: linked, live, and each usable alone.

| name | what |
|---|---|
| `Workbench(trace, lab=None)` | all panels, linked |
| `TextView(trace)` | generated text and document, with what a head keeps |
| `SupportMap(trace)` | steps × positions of a layer and head |
| `SelectionPanel(trace)` | what the selector kept, now and as recorded |
| `Controls(trace)` | the settings |
| `DecodeAgain(trace)` | a new run beside the recorded one |
| `LabState` | the choices, as plain traitlets |
"""

from .controls import Controls
from .decode_again import DecodeAgain
from .selection_panel import SelectionPanel
from .session import Reselection, Session
from .state import MEAN, LabState
from .support_map import SupportMap
from .text_view import TextView
from .workbench import Workbench

__all__ = [
    "MEAN",
    "Controls",
    "DecodeAgain",
    "LabState",
    "Reselection",
    "SelectionPanel",
    "Session",
    "SupportMap",
    "TextView",
    "Workbench",
]
