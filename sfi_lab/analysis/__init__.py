"""Pure functions over traces: a trace goes in, a polars frame or arrays come out, and no model is needed.

| file | question |
|---|---|
| `schedule.py` | which steps would be slow under other settings |
| `replay.py` | one layer re-selected and re-weighed, fast enough for a slider |
| `whatif.py` | the same for many layers, as frames |
"""

from sfi_lab.analysis.replay import LayerReplay, Replayed
from sfi_lab.analysis.schedule import Schedule, schedule
from sfi_lab.analysis.whatif import WhatIf, whatif

__all__ = ["LayerReplay", "Replayed", "Schedule", "WhatIf", "schedule", "whatif"]
