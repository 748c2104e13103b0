"""Support map: steps × positions of one layer and KV head, from ids and weights."""

from __future__ import annotations

import traitlets as T

from . import columns
from .panel import Panel, module
from .twins import support_figure


class SupportMap(Panel):
    """What every step attended to. Hue tells why a position is read (sink, selected, recent under the current settings, or
    not in memory), strength how much attention the recording has there. Zoom, pan, hover, click.
    """

    _esm = module("support_map.mjs")
    height = T.Int(340).tag(sync=True)  # CSS pixels

    def to_figure(self):
        """The same map as a matplotlib figure."""
        return support_figure(self.session)

    def shows(self) -> str:
        s = self.session
        return f"{s.state.steps} steps x {s.state.positions} positions, sha {columns.digest(s.support.rows.offsets, s.support.rows.ids)}"
