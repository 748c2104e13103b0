"""What needs both a model and analysis: studies over many prompts, controls, tuning confirmed by re-runs.

| file | what |
|---|---|
| `run.py` | runs a study end to end, resuming; the table of studies |
| `material.py` | the prompts, documents and tasks a study runs on |
| `prefix.py` | one prompt read once, many runs from there; teacher forcing |
| `forced.py` | a teacher-forced slow-fast run in one forward, and other reading rules (oracle, window alone) |
| `reference.py` | the recorded dense run that others are held against |
| `arms.py`, `controls.py` | controls at equal refresh count and equal K |
| `stability.py`, `fidelity.py` | the other studies, over prompts |
| `tune.py`, `tune_study.py` | the best settings for a target: a function of its own, and the study over prompts |
| `store.py`, `report.py`, `machine.py` | results on disk, Markdown, where it was measured |
"""

from sfi_lab.studies.forced import Everything, Forced, Oracle, SlowFast, forced_pass, plan_steps, window_only
from sfi_lab.studies.material import Material, gather
from sfi_lab.studies.prefix import Prefix
from sfi_lab.studies.run import STUDIES, run_study
from sfi_lab.studies.tune import Tuned, tune

__all__ = [
    "STUDIES", "Everything", "Forced", "Material", "Oracle", "Prefix", "SlowFast", "Tuned", "forced_pass", "gather", "plan_steps",
    "run_study", "tune", "window_only",
]  # fmt: skip
