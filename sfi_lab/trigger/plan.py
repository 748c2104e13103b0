"""What each decode step does: its route and reason, and which layers refresh. The decoder and what-if share this."""

from __future__ import annotations

from dataclasses import dataclass

from sfi_lab.sentences import SentenceEvent
from sfi_lab.settings import Settings
from sfi_lab.trigger.refresher import Refresher


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The plan of one forward.

    route: "prefill", "slow" (dense attention over the whole prefix) or "fast" (sink, recent and selected only).
    reason: why it is slow; "" for a fast step.
    refresh: the selector runs in the dense layers.
    group, groups: with layer groups, only layers of this group are dense on the step; group None means all layers.
    """

    route: str
    reason: str = ""
    refresh: bool = False
    group: int | None = None
    groups: int = 1

    def dense(self, layer: int) -> bool:
        """True if this layer attends to the whole prefix."""
        return self.route == "slow" and (self.group is None or layer % self.groups == self.group)


PROMPT = StepPlan("prefill", "prompt")
NOTHING_TO_SELECT = StepPlan("slow", "nothing_to_select")
FAST = StepPlan("fast")


class Planner:
    """Decides every decode step from the settings, the token fed and the number of positions; deterministic.

    selectable: the model has a layer with full attention; without one there is never anything to select.
    """

    def __init__(self, settings: Settings, selectable: bool = True) -> None:
        self._settings, self._selectable = settings, selectable
        self._refresher = Refresher(settings)
        self._refreshes = 0

    def reset(self) -> None:
        """The next step with something to select is slow, with the reason "first" (after a prompt)."""
        self._refresher.reset()

    def next(self, length: int, event: SentenceEvent, drift: float | None = None) -> StepPlan:
        """The plan of the step that feeds the token of `event`.

        length: cached positions including that token. drift: of the step before, where the trigger asks for it.
        Where J holds K positions or fewer everything is read and nothing is selected.
        """
        s = self._settings
        if not self._selectable or max(0, length - s.recent - s.sink) <= s.k:
            self._refresher.reset()
            return NOTHING_TO_SELECT
        reason = self._refresher.next(event, drift)
        if reason is None:
            return FAST
        if reason == "first":
            self._refreshes = 0
            return StepPlan("slow", reason, refresh=True)
        group = self._refreshes % s.layer_groups
        self._refreshes += 1
        return StepPlan("slow", reason, True, group if s.layer_groups > 1 else None, s.layer_groups)
