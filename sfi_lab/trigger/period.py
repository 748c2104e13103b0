"""Slow at fixed intervals: the control that tells whether sentence ends matter."""

from sfi_lab.trigger.policy import Policy, Step


class PeriodPolicy(Policy):
    """Fires `period` steps after the last slow step, whatever made that one slow."""

    def due(self, step: Step) -> bool:
        return step.gap >= self.settings.period
