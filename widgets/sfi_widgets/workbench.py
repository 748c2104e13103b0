"""The workbench: all panels on one session, laid out for a notebook cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets as W

from sfi_lab import Settings, Trace
from sfi_lab.errors import SfiError

from .compare import Compare
from .controls import Controls
from .decode_again import DecodeAgain
from .export import to_html
from .head_navigator import HeadNavigator
from .panel import Panel
from .run_strip import RunStrip
from .selection_panel import SelectionPanel
from .selector_anatomy import SelectorAnatomy
from .session import Session
from .slow_step_timing import SlowStepTiming
from .stability_panel import StabilityPanel
from .state import LabState
from .support_map import SupportMap
from .text_view import TextView


class Workbench(W.VBox):
    """Linked panels on a trace. `Workbench(trace)`, or `Workbench(trace, lab=lab)` to decode again with a loaded model.

    state: the choices (settings, layer, KV head, cursor …) as traits, for use from Python. A new workbench starts at the
    recording's settings; `state=old.state` (or `state=old`) starts where another one of the same recording is. A cell
    that survives being run again says `bench = Workbench(trace, state=globals().get("bench"))`. A state of another
    recording is left aside.
    timeline: streams of profiled steps for the timing panel (`SlowStepTiming`).
    Attributes: run, heads, controls, map, selection, text, compare, anatomy, timing, stability, decode are the panels (timing is
    None where the trace holds no times); session holds the arrays.
    """

    def __init__(
        self,
        trace: Trace | str | Path,
        lab: Any = None,
        state: LabState | Workbench | None = None,
        timeline: Any = None,
        **layout: Any,
    ) -> None:
        if isinstance(trace, (str, Path)):
            trace = Trace.open(trace)
        if not isinstance(trace, Trace):
            raise SfiError(f"Workbench takes a Trace or the path of one, not {type(trace).__name__}")
        if isinstance(state, Workbench):
            state = state.state
        if not isinstance(state, LabState | None):
            raise SfiError(f"state takes a Workbench or its state, not {type(state).__name__}")
        self.session = session = Session(trace, lab, state)
        wide = {"flex": "3 1 520px", "min_width": "0", "grid_gap": "8px"}
        self.run, self.heads = RunStrip(session), HeadNavigator(session)
        self.controls = Controls(session, layout=W.Layout(flex="1 1 280px", min_width="250px", max_width="420px"))
        self.map, self.selection, self.text = SupportMap(session), SelectionPanel(session), TextView(session)
        self.decode = DecodeAgain(session)
        self.anatomy, self.stability = SelectorAnatomy(session, live=False), StabilityPanel(session, live=False)
        self.timing = SlowStepTiming(session, timeline) if _has_times(trace) else None
        self.compare = Compare(session, live=False)
        self.decode.observe(self._on_decoded, "running")
        tabs = {
            "Text": self.text,
            "Compare": self.compare,
            "Selector anatomy": self.anatomy,
            "Stability": self.stability,
            "Timing": self.timing,
        }
        tabs = {title: panel for title, panel in tabs.items() if panel is not None}
        self.tabs = W.Tab(list(tabs.values()), titles=list(tabs), layout=W.Layout(width="100%"))
        self.tabs.observe(self._on_tab, "selected_index")
        plots = W.VBox([self.run, self.map, self.selection], layout=W.Layout(**wide))
        left = W.VBox(
            [self.controls], layout=W.Layout(flex="1 1 280px", min_width="250px", max_width="420px", grid_gap="8px")
        )
        top = W.HBox([left, plots], layout=W.Layout(flex_flow="row wrap", grid_gap="8px", width="100%"))
        super().__init__(
            [self.heads, top, self.tabs, self.decode], layout=W.Layout(width="100%", grid_gap="8px", **layout)
        )
        self.add_class("sfi-workbench")

    def _on_tab(self, change: dict[str, Any]) -> None:
        """Panels that compute on every move do so only while they can be seen."""
        shown = self.tabs.children[change["new"]] if change["new"] is not None else None
        for panel in (self.compare, self.anatomy, self.stability):
            panel.live = shown is panel

    def _on_decoded(self, change: dict[str, Any]) -> None:
        """A new run's tokens go beside the recorded ones."""
        if not change["new"] and self.decode.ids:
            steps, ids = self.session.trace.steps, list(self.decode.ids)
            recorded = self.session.trace.token_ids[: len(ids)]
            self.compare.show_tokens(
                steps["text"].to_list()[: len(ids)], list(self.decode.words), recorded, ids, "re-run"
            )

    def panels(self) -> list[Panel]:
        """All panels, in reading order."""
        found = [
            self.run,
            self.heads,
            self.controls,
            self.map,
            self.selection,
            self.text,
            self.compare,
            self.anatomy,
            self.stability,
            self.timing,
            self.decode,
        ]
        return [panel for panel in found if panel is not None]

    def to_html(self, path: str | Path) -> Path:
        """One file with the panels that need no kernel: hover, scrubbing, zoom and K stay alive. Returns its path."""
        self.session.rank_all()
        self.compare.live = self.anatomy.live = self.stability.live = True
        self.stability.wait()
        shown = [panel for panel in self.panels() if panel not in (self.controls, self.decode)]
        facts = self.session.trace.info()
        lead = (
            f"{facts['model']}, {facts['prompt_tokens']} prompt tokens, {facts['new_tokens']} new; {self.settings.to_code()}, layer {self.state.layer}. "
            "An exported page: cursor, range, zoom and hover work; other settings and layers need the notebook."
        )
        try:
            return to_html(shown, path, f"sfi_lab workbench: {facts['model']}", lead)
        finally:
            self._on_tab({"new": self.tabs.selected_index})

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


def _has_times(trace: Trace) -> bool:
    return bool(trace.steps["ms_model"].fill_null(0.0).sum() > 0)
