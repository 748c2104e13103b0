"""Milliseconds by stage of one step; only recorded runs carry a clock."""

from __future__ import annotations

import time
from collections import defaultdict

import torch


class StageClock:
    """Adds up wall time by stage name. On a GPU it waits for the device at each reading, which is why timed runs have none."""

    def __init__(self, device: torch.device) -> None:
        self._sync = torch.cuda.synchronize if device.type == "cuda" else None
        self._mark = 0.0
        self.ms: dict[str, float] = defaultdict(float)

    def start(self) -> None:
        """From here on the next lap counts."""
        self._mark = self._now()

    def lap(self, stage: str) -> None:
        """The time since the last start or lap belongs to `stage`."""
        now = self._now()
        self.ms[stage] += (now - self._mark) * 1e3
        self._mark = now

    def take(self) -> dict[str, float]:
        """The step's times, and an empty clock."""
        ms, self.ms = dict(self.ms), defaultdict(float)
        return ms

    def _now(self) -> float:
        if self._sync is not None:
            self._sync()
        return time.perf_counter()
