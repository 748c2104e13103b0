"""Slow when the queries have turned away from those that the memory was selected for."""

from sfi_lab.trigger.policy import Policy, Step


class DriftPolicy(Policy):
    """Fires when the drift exceeds `drift_threshold`; a step without a measured drift is not due."""

    def due(self, step: Step) -> bool:
        return step.drift is not None and step.drift > self.settings.drift_threshold
