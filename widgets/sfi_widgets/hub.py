"""The model that all panels of one workbench share in the browser: arrays and the choices that link them.

Panels hold a reference to it, so an array travels once for all of them, and in an exported page, where no kernel
answers, the cursor still moves every panel.
"""

from __future__ import annotations

import anywidget
import traitlets as T


class Hub(anywidget.AnyWidget):
    """Shared front-end state; never shown itself. `Session` fills it."""

    _esm = "export default {}"

    tokens = T.Dict().tag(sync=True)  # text of every position, joined; sentence
    run = T.Dict().tag(sync=True)  # columns of the steps table
    facts = T.Dict().tag(sync=True)  # model, counts, recorded sizes
    support = T.Dict().tag(sync=True)  # offsets, ids, weights, rest: recorded attention of the chosen layer and head
    recorded = T.Dict().tag(sync=True)  # what the run selected: steps, heads, offsets, ids, k
    now = T.Dict().tag(sync=True)  # what the current settings select: the same, with reasons, λ, kind
    mass = T.Dict().tag(sync=True)  # by step: kept mass and keys read, now and as recorded; the recent window

    k = T.Int(1).tag(sync=True)
    layer = T.Int(0).tag(sync=True)
    kv_head = T.Int(-1).tag(sync=True)
    among = T.Tuple().tag(sync=True)
    cursor = T.Int(0).tag(sync=True)
    brush = T.Tuple(T.Int(), T.Int()).tag(sync=True)
    span = T.Tuple(T.Int(), T.Int()).tag(sync=True)
    probe = T.Int(-1).tag(sync=True)

    def __repr__(self) -> str:
        return f"Hub(layer {self.layer}, KV head {self.kv_head}, step {self.cursor})"
