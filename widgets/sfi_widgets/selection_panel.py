"""Selection panel: what the selector kept at each refresh, under the current settings beside what was recorded."""

from __future__ import annotations

import traitlets as T

from . import columns
from .panel import Panel, module
from .twins import selection_figure


class SelectionPanel(Panel):
    """Attention mass kept, keys read and selected positions at every step, now and as recorded."""

    _esm = module("selection_panel.mjs")
    height = T.Int(420).tag(sync=True)  # CSS pixels

    def to_figure(self):
        """The same curves and map as a matplotlib figure."""
        return selection_figure(self.session)

    def shows(self) -> str:
        now = self.session.now
        if now is None:
            return "as recorded: no queries and keys to re-select from"
        return (
            f"{now.kind}, {len(now.ranking.steps)} refreshes, mass kept {now.mean_kept:.3f}, "
            f"{now.mean_keys_read:.1f} keys a step, sha {columns.digest(self.session.selected_at(self.state.cursor))}"
        )
