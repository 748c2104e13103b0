"""The workbench: all panels on one session, laid out for a notebook cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets as W

from sfi_lab import Settings, Trace
from sfi_lab.errors import SfiError

from .controls import Controls
from .decode_again import DecodeAgain
from .selection_panel import SelectionPanel
from .session import Session
from .state import LabState
from .support_map import SupportMap
from .text_view import TextView


class Workbench(W.VBox):
    """Linked panels on a trace. `Workbench(trace)`, or `Workbench(trace, lab=lab)` to decode again with a loaded model.

    state: the choices (settings, layer, KV head, cursor …) as traits, for use from Python.
    Attributes: controls, map, selection, text, decode are the panels; session holds the arrays.
    """

    def __init__(self, trace: Trace | str | Path, lab: Any = None, **layout: Any) -> None:
        if isinstance(trace, (str, Path)):
            trace = Trace.open(trace)
        if not isinstance(trace, Trace):
            raise SfiError(f"Workbench takes a Trace or the path of one, not {type(trace).__name__}")
        self.session = Session(trace, lab)
        self.controls = Controls(self.session, layout=W.Layout(flex="1 1 280px", min_width="250px", max_width="420px"))
        self.map = SupportMap(self.session)
        self.selection = SelectionPanel(self.session)
        self.text = TextView(self.session)
        self.decode = DecodeAgain(self.session)
        plots = W.VBox([self.map, self.selection], layout=W.Layout(flex="3 1 520px", min_width="0", grid_gap="8px"))
        top = W.HBox([self.controls, plots], layout=W.Layout(flex_flow="row wrap", grid_gap="8px", width="100%"))
        super().__init__([top, self.text, self.decode], layout=W.Layout(width="100%", grid_gap="8px", **layout))
        self.add_class("sfi-workbench")

    @property
    def state(self) -> LabState:
        """What is chosen; assign to its traits to move the panels from Python."""
        return self.session.state

    def set(self, **changes: Any) -> Workbench:
        """Changes settings by name, as the controls do, but raises for what is not allowed. Returns itself."""
        self.state.settings = self.state.settings.with_(**changes)
        return self

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.state.settings

    def __repr__(self) -> str:
        facts = self.session.trace.info()
        return (
            f"Workbench({facts['model']}, {facts['prompt_tokens']} prompt tokens, {facts['new_tokens']} new, "
            f"{self.state.settings.to_code()})"
        )
