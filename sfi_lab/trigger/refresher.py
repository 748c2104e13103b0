"""The clock of slow steps: first step, policy, T_max, in this order."""

from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.sentences.events import SentenceEvent
from sfi_lab.trigger.policy import Policy, Step
from sfi_lab.trigger.table import POLICIES


class Refresher:
    """Says before each decode step of one sequence whether the step is slow.

    Deterministic: the same settings and the same events give the same answers, so a schedule can be replayed from a
    trace. Where a policy and T_max come due together the policy's name is the reason.

    Parameters
    ----------
    settings
        A `Settings`; read are trigger, t_max and what the policy needs.

    Raises
    ------
    SfiError
        For a trigger that is not in the table of policies.
    """

    def __init__(self, settings: Any) -> None:
        if settings.trigger not in POLICIES:
            raise SfiError(f"trigger must be one of {', '.join(POLICIES)}, got {settings.trigger!r}")
        self.settings = settings
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next step is the first of a sequence."""
        self._policy: Policy = POLICIES[self.settings.trigger](self.settings)
        self._fast_steps: int | None = None  # since the last slow step; None before the first

    @property
    def fast_steps(self) -> int:
        """Fast steps since the last slow one (0 before the first step)."""
        return self._fast_steps or 0

    def next(self, event: SentenceEvent | None, drift: float | None = None) -> str | None:
        """Decide one step. Call exactly once before each decode step.

        Parameters
        ----------
        event : SentenceEvent or None
            The event of the token which this step feeds.
        drift : float or None
            1 - cosine of the last step's queries to those of the last refresh.

        Returns
        -------
        str or None
            Why the step is slow: "first", the policy's name, or "t_max"; None for a fast step.
        """
        fast_steps = self._fast_steps
        due = self._policy.due(Step(event, drift, gap=(fast_steps or 0) + 1))
        if fast_steps is None:
            reason = "first"
        elif due:
            reason = self.settings.trigger
        elif self.settings.t_max and fast_steps >= self.settings.t_max:
            reason = "t_max"
        else:
            self._fast_steps = fast_steps + 1
            return None
        self.note_refresh()
        return reason

    def note_refresh(self) -> None:
        """Tell that the step just decided is slow after all, for a reason of the caller's own (dense decoding, say)."""
        self._fast_steps = 0
        self._policy.refreshed()
