"""The workbench: all panels on one session, laid out for a notebook cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets as W

from sfi_lab import Settings, Trace
from sfi_lab.errors import SfiError

from .cards import workbench_figure
from .compare import Compare
from .controls import Controls
from .decode_again import DecodeAgain
from .export import to_html
from .head_navigator import HeadNavigator
from .memory import Cell, places
from .panel import Panel
from .picture import Pictured
from .run_strip import RunStrip
from .selection_panel import SelectionPanel
from .selector_anatomy import SelectorAnatomy
from .session import Session
from .slow_step_timing import SlowStepTiming
from .stability_panel import StabilityPanel
from .state import LabState
from .support_map import SupportMap
from .text_view import TextView


class Workbench(Pictured, W.VBox):
    """Linked panels on a trace. `Workbench(trace)`, or `Workbench(trace, lab=lab)` to decode again with a loaded model.

    A cell that is run again finds everything as it was left: settings, layer, heads, cursor, ranges, the chosen lines and tab,
    what was pinned and decoded again (how: `memory.py`). `fresh=True` starts at the recording's settings instead.

    state: start where another workbench of the same recording is (`state=old` or `state=old.state`), also in another cell. A
        state of another recording is left aside.
    timeline: streams of profiled steps for the timing panel (`SlowStepTiming`).
    fresh: leave aside what this cell's last run left.
    Attributes: state holds the choices as traits, for use from Python; run, heads, controls, map, selection, text, compare,
        anatomy, timing, stability, decode are the panels (timing is None where the trace holds no times); session holds the
        arrays. `picture = False` leaves the picture for viewers without widgets out of a cell's output.
    """

    def __init__(
        self,
        trace: Trace | str | Path,
        lab: Any = None,
        state: LabState | Workbench | None = None,
        timeline: Any = None,
        fresh: bool = False,
        **layout: Any,
    ) -> None:
        if isinstance(trace, (str, Path)):
            trace = Trace.open(trace)
        if not isinstance(trace, Trace):
            raise SfiError(f"Workbench takes a Trace or the path of one, not {type(trace).__name__}")
        if not isinstance(state, LabState | Workbench | None):
            raise SfiError(f"state takes a Workbench or its state, not {type(state).__name__}")
        cell = Cell.now()
        before = places(cell).swap(cell, _recording(trace), self) if cell else None
        old = state if state is not None else None if fresh else before
        self.session = session = Session(trace, lab, old.state if isinstance(old, Workbench) else old)
        wide = {"flex": "3 1 520px", "min_width": "0", "grid_gap": "8px"}
        self.run, self.heads = RunStrip(session), HeadNavigator(session)
        self.controls = Controls(session)
        self.map, self.selection, self.text = SupportMap(session), SelectionPanel(session), TextView(session)
        self.decode = DecodeAgain(session)
        self.anatomy, self.stability = SelectorAnatomy(session, live=False), StabilityPanel(session, live=False)
        self.timing = SlowStepTiming(session, timeline) if _has_times(trace) else None
        self.compare = Compare(session, live=False)
        self.decode.observe(self._on_decoded, "running")
        tabs = {
            "Text": self.text,
            "Compare": self.compare,
            "Anatomy": self.anatomy,
            "Stability": self.stability,
            "Timing": self.timing,
        }
        tabs = {title: panel for title, panel in tabs.items() if panel is not None}
        self.tabs = W.Tab(list(tabs.values()), titles=list(tabs), layout=W.Layout(width="auto"))
        self.tabs.observe(self._on_tab, "selected_index")
        plots = W.VBox([self.run, self.map, self.selection], layout=W.Layout(**wide))
        left = W.VBox(
            [self.controls], layout=W.Layout(flex="1 1 280px", min_width="0")
        )  # a narrow cell: on top, full width
        top = W.HBox([left, plots], layout=W.Layout(flex_flow="row wrap", grid_gap="8px", width="100%"))
        super().__init__(
            [self.heads, top, self.tabs, self.decode], layout=W.Layout(width="100%", grid_gap="8px", **layout)
        )
        self.add_class("sfi-workbench")
        for what in (self.state, self.run, self.heads):
            what.observe(self._stale)
        if isinstance(old, Workbench) and old.state.recording == self.state.recording:
            self._take_over(old)
        if before is not None:  # ipywidgets keeps every widget: what is heavy in the one that goes must not pile up
            before.session.forget()
            before.heads.all_layers.hand_over(self.heads.all_layers)

    def _take_over(self, old: Workbench) -> None:
        """What another workbench of the recording shows beside its state."""
        self.run.metric, self.heads.metric = old.run.metric, old.heads.metric
        if old.compare.pinned:
            self.compare.pin(old.compare.a_settings)
        self.compare.tokens = old.compare.tokens
        if self.timing and old.timing:
            self.timing.profile = min(old.timing.profile, max(0, len(self.timing.profiles) - 1))
            self.timing.bandwidth = old.timing.bandwidth
        self.tabs.selected_index = old.tabs.selected_index

        def take_run(_change: Any = None) -> None:
            if old.decode.running or self.decode.running or self.decode.ids:
                return
            for name in DecodeAgain.class_own_traits(sync=True):
                if name != "running":
                    setattr(self.decode, name, getattr(old.decode, name))
            self.decode.steps, self.compare.tokens = old.decode.steps, old.compare.tokens

        if old.decode.running:  # its thread still writes into the old panel
            old.decode.observe(take_run, "running")
        else:
            take_run()

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

    def to_figure(self) -> Any:
        """Heads, run, support map and selection as one matplotlib figure."""
        return workbench_figure(self)

    def to_html(self, path: str | Path) -> Path:
        """One file with the panels that need no kernel: hover, scrubbing, zoom and K stay alive. Returns its path."""
        self.session.rank_all()
        self.run.measure_overlap()  # a page without a kernel can't measure when asked
        self.heads.measure_stability()
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


def _recording(trace: Trace) -> str:
    """Tells recordings apart, also one that was made anew at the same place."""
    return f"{trace.path.resolve()} {trace.meta.get('created', '')}"


def _has_times(trace: Trace) -> bool:
    return bool(trace.steps["ms_model"].fill_null(0.0).sum() > 0)
