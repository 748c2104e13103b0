"""What every trigger policy is: a yes or no for each step, made from what is known before the step."""

from dataclasses import dataclass
from typing import Any

from sfi_lab.sentences.events import SentenceEvent


@dataclass(frozen=True, slots=True)
class Step:
    """What a policy may look at before one decode step.

    Attributes
    ----------
    event : SentenceEvent or None
        The event of the token which the step feeds; None where no text is tracked.
    drift : float or None
        1 - cosine of the last step's queries to those of the last refresh; None where it isn't measured.
    gap : int
        Steps since the last slow one: 1 for the step right behind it.
    """

    event: SentenceEvent | None
    drift: float | None
    gap: int


class Policy:
    """A trigger policy. Subclasses write `due` and, where they keep state, `refreshed`; a fresh one starts a sequence.

    Parameters
    ----------
    settings
        A `Settings`, or anything with its attributes.
    """

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def due(self, step: Step) -> bool:
        """Whether this step is to be slow. Called once for every step, also for those that are slow anyway."""
        raise NotImplementedError(f"{type(self).__name__} needs a method due(step) -> bool")

    def refreshed(self) -> None:
        """A slow step is made, for whatever reason. Called after `due` of that step, before the next one's."""
