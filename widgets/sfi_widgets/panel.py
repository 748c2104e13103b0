"""What every panel is: a widget on a session's hub, with a repr that states facts and a digest of what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anywidget
import traitlets as T
from ipywidgets import widget_serialization

from sfi_lab import Trace

from .assets import module, style
from .hub import Hub
from .session import Session

__all__ = ["Panel", "module"]


class Panel(anywidget.AnyWidget):
    """A view of a trace. `source` is a Trace, or the Session of a workbench that the panel joins.

    Subclasses set `_esm = module("name.mjs")` and say in `shows` what they show.
    """

    _css = style()
    live = T.Bool(True)  # False: hidden, so nothing is computed on a change
    hub = T.Instance(Hub).tag(sync=True, **widget_serialization)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        self.session = source if isinstance(source, Session) else Session(source)
        super().__init__(hub=self.session.hub, **traits)

    @property
    def state(self):
        """The choices (settings, layer, head, cursor …) this panel follows."""
        return self.session.state

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Computes while the block runs, also where the panel is hidden; for pictures of what can't be seen."""
        before, self.live = self.live, True
        try:
            yield
        finally:
            self.live = before

    def shows(self) -> str:
        """The facts in the panel's repr, the same on every run."""
        return ""

    def __repr__(self) -> str:
        head = "mean" if self.state.kv_head < 0 and not self.state.among else self.state.head_name
        facts = self.shows()
        return f"{type(self).__name__}(layer {self.state.layer}, {head}{', ' + facts if facts else ''})"
