"""Slow at random intervals: the control for a rhythm that text doesn't set."""

import random
from typing import Any

from sfi_lab.trigger.policy import Policy, Step


class RandomPolicy(Policy):
    """Intervals drawn uniformly from 1 to 2 * period - 1 (mean: period), a new one after every slow step.

    The generator is the policy's own and seeded with `seed`, so the intervals repeat.
    """

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._random = random.Random(settings.seed)
        self._interval = self._draw()

    def due(self, step: Step) -> bool:
        return step.gap >= self._interval

    def refreshed(self) -> None:
        self._interval = self._draw()

    def _draw(self) -> int:
        return self._random.randint(1, 2 * self.settings.period - 1)
