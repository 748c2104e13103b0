"""When a decode step is slow: T_max, the first step, and one policy for everything between.

Add a policy: write one class derived from `Policy` in a file of its own (`due` says whether this step refreshes,
`refreshed` is told of every slow step), and add one line to `TRIGGERS` in `sfi_lab/settings/fields.py`, which `POLICIES`
and the allowed values of the setting `trigger` are made from. Its name is the reason that traces carry. `plan.py` has what the decoder and what-if ask: a plan a step.
"""

from sfi_lab.trigger.policy import Policy, Step
from sfi_lab.trigger.refresher import Refresher
from sfi_lab.trigger.table import POLICIES

__all__ = ["POLICIES", "Policy", "Refresher", "Step"]
