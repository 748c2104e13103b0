"""Slow-step timing: where each step's milliseconds went, and how fast and slow steps differ."""

from __future__ import annotations

import numpy as np
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import slow_share, step_times
from sfi_lab.errors import SfiError

from .panel import Panel, module
from .session import Session

_GROUPS = {
    "model": ("model",),
    "attention": ("attention",),
    "evidence and prior": ("evidence", "prior", "fusion"),
    "soft-NMS and exclusivity": ("nms", "exclusivity"),
    "Top-K and packing": ("topk", "pack"),
    "sampling": ("sample",),
}


class SlowStepTiming(Panel):
    """Bars a step, split by stage, and the distribution of fast against slow steps. Times are the recording's, its own cost left out."""

    _esm = module("slow_step_timing.mjs")
    height = T.Int(250).tag(sync=True)  # CSS pixels
    times = T.Dict().tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        frame = step_times(session.trace)
        shares = slow_share(session.trace)
        steps = np.full((len(_GROUPS), session.state.steps), np.nan, np.float32)
        at = frame["step"].to_numpy()
        for row, parts in enumerate(_GROUPS.values()):
            steps[row, at] = frame.select(total=sum(frame[part] for part in parts))["total"].to_numpy()
        if not np.nansum(steps):
            raise SfiError(f"{session.trace.path} holds no times")
        times = {
            "groups": list(_GROUPS),
            "values": steps.tobytes(),
            **{k: v for k, v in shares.items() if v is not None},
        }
        super().__init__(session, times=times, **traits)

    def shows(self) -> str:
        return f"{self.times['slow_steps']} slow and {self.times['fast_steps']} fast steps"
