"""Slow at sentence ends, the paper's policy (section on the event trigger), with the release's gap and cooldown."""

from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.trigger.policy import Policy, Step

FIRE_ON = ("boundary", "next_sentence")


class SentencePolicy(Policy):
    """Fires when the token fed ends a sentence ("boundary") or is the first of a new one ("next_sentence").

    `min_gap`: not before that many steps after the last refresh. `cooldown`: once a sentence trigger has come up, fired
    or held back, others within that many steps aren't counted, so that `?` `!` or `.` and a newline are one.
    """

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        if settings.fire_on not in FIRE_ON:
            raise SfiError(f"fire_on must be one of {', '.join(FIRE_ON)}, got {settings.fire_on!r}")
        self._ignored_steps = 0  # steps of the cooldown still to come

    def due(self, step: Step) -> bool:
        if self._ignored_steps > 0:
            self._ignored_steps -= 1
            return False
        if step.event is None:
            return False
        if not (step.event.ends if self.settings.fire_on == "boundary" else step.event.starts):
            return False
        self._ignored_steps = self.settings.cooldown
        return step.gap >= self.settings.min_gap
