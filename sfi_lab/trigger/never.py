"""No trigger: only the first step and T_max are slow."""

from sfi_lab.trigger.policy import Policy, Step


class NeverPolicy(Policy):
    """Never fires."""

    def due(self, step: Step) -> bool:
        return False
