"""Text view: the generated text and the document, with what the chosen head keeps at the cursor's step."""

from __future__ import annotations

import traitlets as T

from .deep_twins import text_figure
from .panel import Panel, module


class TextView(Panel):
    """Generated text with sentences as bands and slow steps marked with their reason, beside the document. What the
    chosen layer and head keep is tinted, the stronger the more attention. Only visible lines are in the page.
    """

    _esm = module("text_view.mjs")
    height = T.Int(300).tag(sync=True)  # CSS pixels

    def kept(self) -> list[int]:
        """Selected positions at the cursor's step under the current settings (as recorded, where none can be re-selected)."""
        return self.session.selected_at(self.state.cursor).tolist()

    def to_figure(self):
        """The text before the cursor's token, with what is kept, as a matplotlib figure."""
        return text_figure(self)

    def shows(self) -> str:
        tokens, step = self.session.trace.tokens, self.session.trace.steps.row(self.state.cursor, named=True)
        why = f"slow ({step['reason']})" if step["route"] == "slow" else step["route"]
        return f"{tokens.height} tokens, step {step['step']} {why}, {len(self.kept())} selected"
