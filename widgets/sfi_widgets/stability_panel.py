"""Stability: how alike supports stay within a sentence and across its end, with intervals, for the layer and the brush."""

from __future__ import annotations

import threading
from typing import Any

import traitlets as T

from sfi_lab import Trace
from sfi_lab.analysis import curve, measure, stability
from sfi_lab.errors import SfiError

from .background import background
from .deep_twins import stability_figure
from .panel import Panel, module
from .session import Session

_LAGS = 12
_LEAST = 24  # steps a range must have for curves of this length


class StabilityPanel(Panel):
    """Overlap of supports against lag, within a sentence and across its end, for the chosen layer in the brushed range.

    The curves come at once; their intervals and the verdict follow from a thread, and only if nothing newer was asked.
    """

    _esm = module("stability_panel.mjs")
    height = T.Int(240).tag(sync=True)  # CSS pixels
    curves = T.Dict().tag(sync=True)
    verdict = T.Unicode("").tag(sync=True)
    error = T.Unicode("").tag(sync=True)
    busy = T.Bool(False).tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        self._asked = 0
        self._thread: threading.Thread | None = None
        super().__init__(session, **traits)
        self.state.observe(lambda _: self.refresh(), ["layer", "brush"])
        self.observe(lambda _: self.refresh(), "live")
        self.refresh()

    def refresh(self) -> None:
        """Measures the chosen layer over the brushed steps."""
        if not self.live:
            return
        self._asked += 1
        layer, (first, last) = self.state.layer, self.state.brush
        if last - first < _LEAST:
            self.curves, self.verdict, self.error = (
                {},
                "",
                f"choose a range of at least {_LEAST} steps in the run strip",
            )
            return
        try:
            measured = measure(
                self.session.trace, lags=_LAGS, metrics=("overlap",), layers=[layer], steps=(first, last - 1), n=24
            )
        except SfiError as error:
            self.curves, self.verdict, self.error = {}, "", str(error)
            return
        means = curve(measured)
        with self.hold_sync():
            self.error, self.verdict = "", ""
            self.curves = {
                **means.select("lag", "within", "across").to_dict(as_series=False),
                "layer": layer,
                "source": measured.source,
            }
            self.busy = True
        self._thread = background(self._intervals, measured, self._asked)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the intervals; True if they are there."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.busy

    def _intervals(self, measured: Any, number: int) -> None:
        try:
            found = stability(measured, draws=200, permutations=200)
            words, bounds = found.verdict, found.curves
        except Exception as error:  # shown in the panel, not in a server's log
            words, bounds = f"no intervals: {type(error).__name__}: {error}", None
        if number != self._asked:
            return  # a newer request is under way
        with self.hold_sync():
            if bounds is not None:
                extra = {}
                for side in ("within", "across"):
                    part = bounds.filter(bounds["side"] == side).sort("lag")
                    extra |= {f"{side}_low": part["low"].to_list(), f"{side}_high": part["high"].to_list()}
                self.curves = {**self.curves, **extra}
            self.verdict, self.busy = words, False

    def to_figure(self):
        """The same curves as a matplotlib figure."""
        with self.awake():
            self.wait()
            return stability_figure(self)

    def _quick_figure(self):
        with self.awake():
            return stability_figure(self)

    def shows(self) -> str:
        if not self.curves:
            return self.error
        lag1 = ", ".join(
            f"{side} {self.curves[side][0]:.3f}" for side in ("within", "across") if self.curves[side][0] is not None
        )
        return f"overlap at lag 1: {lag1} ({self.curves['source']})"
