"""What every panel is: a widget on a session's hub, with a repr that states facts and a digest of what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anywidget
import traitlets as T
from ipywidgets import widget_serialization

from sfi_lab import Trace

from .assets import module, style
from .cards import card_figure
from .hub import Hub
from .picture import Pictured
from .session import Session

__all__ = ["Panel", "module"]


class Panel(Pictured, anywidget.AnyWidget):
    """A view of a trace. `source` is a Trace, or the Session of a workbench that the panel joins.

    Subclasses set `_esm = module("name.mjs")`, say in `shows` what they show, and draw it in `to_figure`.
    """

    _css = style()
    live = T.Bool(True)  # False: hidden, so nothing is computed on a change
    hub = T.Instance(Hub).tag(sync=True, **widget_serialization)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        self.session = source if isinstance(source, Session) else Session(source)
        super().__init__(hub=self.session.hub, **traits)
        self.state.observe(self._stale)
        self.observe(self._stale)

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

    def to_figure(self) -> Any:
        """What is shown as a matplotlib figure; here the facts alone."""
        return card_figure(type(self).__name__, self.shows() or repr(self))

    def shows(self) -> str:
        """The facts in the panel's repr, the same on every run."""
        return ""

    def __repr__(self) -> str:
        head = "mean" if self.state.kv_head < 0 and not self.state.among else self.state.head_name
        facts = self.shows()
        return f"{type(self).__name__}(layer {self.state.layer}, {head}{', ' + facts if facts else ''})"
