"""Selector anatomy: one refresh, stage by stage, and what soft-NMS and exclusivity moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import stages
from sfi_lab.analysis.anatomy import coverage, duplication
from sfi_lab.errors import SfiError

from . import columns
from .deep_twins import anatomy_figure
from .one_core import one_core
from .panel import Panel, module
from .session import Session

_CURVES = ("evidence", "prior", "fused", "log_score", "suppressed", "exclusive")
# bits of a position's flags: among the K by z, by z_nms, by z_adj
BY_SCORE, BY_NMS, SELECTED = 1, 2, 4


class SelectorAnatomy(Panel):
    """Evidence, prior, fused score, soft-NMS, exclusivity and Top-K of the refresh in force at the cursor, along positions.

    Follows the cursor, the layer, the head (head 0 for the mean) and the settings while `live`; `refresh()` computes it now.
    """

    _esm = module("selector_anatomy.mjs")
    height = T.Int(430).tag(sync=True)  # CSS pixels
    stage = T.Dict().tag(sync=True)
    error = T.Unicode("").tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        self._shown: tuple[Any, ...] | None = None
        super().__init__(session, **traits)
        self.state.observe(lambda _: self.refresh(), ["settings", "layer", "kv_head", "cursor"])
        self.observe(lambda _: self.refresh(), "live")
        self.refresh()

    def refresh(self) -> None:
        """Takes the refresh in force apart, if it isn't the one that is shown already."""
        if not self.live:
            return
        session, state = self.session, self.state
        if session.now is None:
            self.stage, self.error, self._shown = {}, session.why_not, None
            return
        at = int(np.searchsorted(session.now.ranking.steps, state.cursor, side="right")) - 1
        if at < 0:
            self.stage, self.error, self._shown = {}, "no refresh yet at this step: move the cursor to the right", None
            return
        step, head = int(session.now.ranking.steps[at]), max(0, state.kv_head)
        key = (step, state.layer, head, state.settings)
        if key == self._shown:
            return
        try:
            self.stage, self.error, self._shown = self._take_apart(step, head), "", key
        except SfiError as error:
            self.stage, self.error, self._shown = {}, str(error), None

    def _take_apart(self, step: int, head: int) -> dict[str, Any]:
        settings = self.state.settings
        with one_core():
            frame = stages(self.session.replay(self.state.layer), step, settings)
        heads = [frame.filter(frame["kv_head"] == h) for h in range(self.session.trace.kv_heads)]
        own = heads[head]
        flags = [_flags(part) for part in heads]
        chosen = {bit: [np.flatnonzero(f & bit) for f in flags] for bit in (BY_SCORE, BY_NMS, SELECTED)}
        j, mine = own.height, flags[head]
        k = max(1, int((mine & SELECTED > 0).sum()))
        refresh = int(np.flatnonzero(self.session.now.ranking.steps == step)[0])
        return {
            "step": step,
            "head": head,
            "first": settings.sink,
            "candidates": j,
            "k": k,
            "lam": float(self.session.now.lam[refresh]),
            **{name: _coded(own[name].to_numpy(), name) for name in _CURVES},
            "flags": mine.tobytes(),
            "moved_by_nms": int(((mine & BY_SCORE > 0) & (mine & BY_NMS == 0)).sum()),
            "moved_by_exclusivity": int(((mine & BY_NMS > 0) & (mine & SELECTED == 0)).sum()),
            "coverage": [coverage(chosen[bit][head], j) for bit in (BY_SCORE, BY_NMS, SELECTED)],
            "duplication": [duplication(chosen[bit]) for bit in (BY_SCORE, BY_NMS, SELECTED)],
        }

    def to_figure(self):
        """The same curves and strips as a matplotlib figure."""
        with self.awake():
            return anatomy_figure(self)

    def shows(self) -> str:
        if not self.stage:
            return self.error
        s = self.stage
        return (
            f"refresh of step {s['step']}, {s['k']} of {s['candidates']} selected, soft-NMS moved {s['moved_by_nms']}, "
            f"exclusivity {s['moved_by_exclusivity']}, sha {columns.digest(np.frombuffer(s['flags'], np.uint8))}"
        )


def _flags(frame: Any) -> np.ndarray:
    found = np.zeros(frame.height, np.uint8)
    for bit, name in ((BY_SCORE, "rank_before_nms"), (BY_NMS, "rank_before_exclusivity"), (SELECTED, "rank")):
        found[frame[name].is_not_null().to_numpy()] |= bit
    return found


def _coded(values: np.ndarray, name: str) -> dict[str, Any]:
    """A curve in 16 bits with its range; shares as log10, since they run over many decades."""
    curve = np.log10(np.maximum(values, 1e-9)) if name in ("evidence", "prior", "fused") else values.astype(float)
    low, high = float(curve.min()), float(curve.max())
    scale = 65535.0 / (high - low) if high > low else 0.0
    return {"low": low, "high": high, "codes": np.round((curve - low) * scale).astype(np.uint16).tobytes()}
