"""Pure functions over traces: a trace goes in, a polars frame or arrays come out, and no model is needed.

| file | question |
|---|---|
| `schedule.py` | which steps would be slow under other settings |
| `replay.py` | one layer re-selected and re-weighed, fast enough for a slider |
| `mass.py`, `output_error.py`, `recorded.py` | its parts: attention mass kept, error of the output, what all layers share |
| `whatif.py` | the same for many layers, as frames |
| `supports.py` | what every step attended to, as arrays |
| `pairs.py` | how alike the supports of two steps are |
| `stability.py`, `boundaries.py` | within a sentence against across a boundary: curves, half-lives, intervals, verdict |
| `statistics.py` | bootstrap, permutation and sign-flip tests, half-life, an effect in words |
| `fidelity.py` | KL, agreement, divergence and perplexity against dense |
| `anatomy.py` | the selector taken apart, stage by stage and refresh by refresh |
| `timing.py` | milliseconds by route and stage, and the memory bound beside them |
"""

from sfi_lab.analysis.anatomy import ages, passages, refresh_anatomy, selected_text, selection_anatomy, stages
from sfi_lab.analysis.fidelity import compare_logits, fidelity, fidelity_steps, first_divergence, perplexity
from sfi_lab.analysis.pairs import METRICS, Pairs, pair_values
from sfi_lab.analysis.replay import LayerReplay, Replayed
from sfi_lab.analysis.schedule import Schedule, schedule
from sfi_lab.analysis.stability import Measured, Stability, curve, measure, stability
from sfi_lab.analysis.statistics import half_life
from sfi_lab.analysis.supports import Supports, supports
from sfi_lab.analysis.timing import memory_bound, slow_share, step_times, timing, timing_by_context
from sfi_lab.analysis.whatif import WhatIf, whatif

__all__ = [
    "METRICS", "LayerReplay", "Measured", "Pairs", "Replayed", "Schedule", "Stability", "Supports", "WhatIf", "ages", "compare_logits",
    "curve", "fidelity", "fidelity_steps", "first_divergence", "half_life", "measure", "memory_bound", "pair_values", "passages",
    "perplexity", "refresh_anatomy", "schedule", "selected_text", "selection_anatomy", "slow_share", "stability", "stages", "step_times",
    "supports", "timing", "timing_by_context", "whatif",
]  # fmt: skip
