"""Controls: every knob that re-selection answers to, presets, reset, and the settings as code."""

from __future__ import annotations

from typing import Any

import traitlets as T

from sfi_lab import Settings, Trace
from sfi_lab.settings import FIELDS
from sfi_lab.settings.fields import TRIGGERS

from .cards import settings_figure
from .panel import Panel, module
from .session import Session

_SHARES = [round((i / 100) ** 2, 4) for i in range(101)]  # fine near 0, where λ matters
_STRENGTHS = [round(0.05 * i, 2) for i in range(41)]

# field: (words beside the symbol, control, kind, stops or options); None: stops up to the trace's length
_KNOBS: dict[str, tuple[str, str, str, list[Any] | None]] = {
    "k": ("selected", "slider", "integer", None),
    "lam": ("share of the prior", "slider", "number", _SHARES),
    "lam_clip": ("largest λ", "slider", "number", _SHARES),
    "t_max": ("at most", "slider", "integer", [0, *range(1, 32), *range(32, 64, 2), *range(64, 257, 8)]),
    "trigger": ("", "choice", "", list(TRIGGERS)),
    "period": ("steps", "slider", "integer", list(range(1, 129))),
    "seed": ("of 'random'", "slider", "integer", list(range(33))),
    "drift_threshold": ("threshold", "slider", "number", [round(0.02 * i, 2) for i in range(101)]),
    "fire_on": ("", "choice", "", ["boundary", "next_sentence"]),
    "min_gap": ("steps", "slider", "integer", list(range(65))),
    "cooldown": ("steps", "slider", "integer", list(range(65))),
    "layer_groups": ("in turn", "slider", "integer", list(range(1, 9))),
    "nms_strength": ("soft-NMS", "slider", "number", _STRENGTHS),
    "nms_radius": ("of soft-NMS", "slider", "integer", list(range(65))),
    "exclusivity": ("exclusivity", "slider", "number", _STRENGTHS),
    "temperature": ("of exclusivity", "slider", "number", [round(0.1 * i, 1) for i in range(1, 51)]),
    "alpha": ("power mean", "slider", "number", [round(0.05 * i, 2) for i in range(1, 21)]),
    "gamma": ("key norms", "slider", "number", _STRENGTHS),
    "beta": ("position decay", "slider", "number", _STRENGTHS),
    "power": ("of the decay", "slider", "number", [round(0.1 * i, 1) for i in range(1, 41)]),
    "eta": ("newest held back", "slider", "number", _STRENGTHS),
    "position_weight": ("prior", "slider", "number", _STRENGTHS),
    "norm_weight": ("prior", "slider", "number", _STRENGTHS),
    "sink": ("first positions", "slider", "integer", [*range(33), 48, 64, 96, 128]),
    "recent": ("newest positions", "slider", "integer", None),
    "recent_mode": ("", "choice", "", ["sliding", "pinned"]),
    "rectify": ("", "choice", "", [False, True]),
}
CODE_ONLY = ("enders", "prefill_window")  # no knob; the box with the settings as code takes them
_GROUPS = [
    ("Selector", True, ["lam", "k"]),
    ("When a step is slow", True, ["t_max", "trigger"]),
    ("Soft-NMS and exclusivity", True, ["nms_strength", "nms_radius", "exclusivity", "temperature"]),
    ("Always read", True, ["sink", "recent", "recent_mode"]),
    (
        "More of the trigger",
        False,
        ["period", "seed", "drift_threshold", "fire_on", "min_gap", "cooldown", "layer_groups"],
    ),
    ("Evidence and prior", False, ["alpha", "gamma", "beta", "power", "eta", "norm_weight", "position_weight"]),
    ("Only in a re-run", False, ["rectify"]),
]


def stops(end: int) -> list[int]:
    """Whole numbers 1 … end, every one at the bottom and about eight an octave further up."""
    found, value = [], 1
    while value < end:
        found.append(value)
        value += max(1, 2 ** (value.bit_length() - 4)) if value >= 16 else 1
    return [*found, end]


class Controls(Panel):
    """Sliders and choices for the settings, presets, reset and a box with the settings as code.

    The front end sends what it wants (`wanted`: values, a preset's name or code, with a running number); what came of it
    is in `values`, `code` and `error`, with the number in `answered`.
    """

    _esm = module("controls.mjs")
    spec = T.Dict().tag(sync=True)
    values = T.Dict().tag(sync=True)
    wanted = T.Dict().tag(sync=True, echo_update=False)  # `values` says what came of it
    answered = T.Int(0).tag(sync=True)
    code = T.Unicode("").tag(sync=True)
    preset = T.Unicode("").tag(sync=True)
    error = T.Unicode("").tag(sync=True)

    def __init__(self, source: Trace | Session, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        super().__init__(session, spec=_spec(session), **traits)
        self.state.observe(lambda _: self._show(), ["settings", "error", "layer"])
        self.on_msg(lambda _widget, content, _buffers: self.session.rank_all() if content.get("do") == "rank" else None)
        self._show()

    def presets(self) -> dict[str, Settings]:
        """Where a preset button leads: the recording's settings, and the published ones at the recording's sizes.

        The published sink, recent and K belong to contexts of thousands of positions, so they stay the recording's.
        """
        recorded = self.session.trace.settings
        sizes = {name: getattr(recorded, name) for name in ("sink", "recent", "k", "prefill_window", "seed")}
        return {"recorded": recorded, "paper": Settings.paper(**sizes), "released": Settings.released(**sizes)}

    @T.observe("wanted")
    def _on_wanted(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        # the arrays and then the answer, one message each and close together: the browser paints both in one frame
        with self.hold_sync(), self.hub.hold_sync():
            if "preset" in wanted:
                self.state.settings, self.state.error = self.presets()[wanted["preset"]], ""
            elif "code" in wanted:
                self.state.apply_code(wanted["code"])
            elif "values" in wanted:
                self.state.apply(**wanted["values"])
            self._show()
            self.answered = int(wanted.get("number", 0))

    def _show(self) -> None:
        settings = self.state.settings
        with self.hold_sync():
            self.values, self.code = settings.to_dict(), settings.to_code()
            self.error = self.state.error or self.session.why_not
            self.preset = next((name for name, preset in self.presets().items() if preset == settings), "")

    def to_figure(self):
        """The settings as a table, as a matplotlib figure."""
        return settings_figure(self)

    def shows(self) -> str:
        return self.state.settings.to_code()


def _spec(session: Session) -> dict[str, Any]:
    reach = session.state.positions
    items = {}
    for name, (title, control, kind, given) in _KNOBS.items():
        field = FIELDS[name]
        item = {
            "name": name,
            "symbol": field.symbol,
            "title": title,
            "meaning": field.meaning,
            "allowed": field.allowed,
            "kind": kind,
        }
        item["control"] = "lambda" if name == "lam" else control
        item["options" if control == "choice" else "stops"] = given or stops(reach)
        items[name] = item
    presets = [
        {"name": "recorded", "title": "Reset: back to the settings of the recording"},
        {"name": "paper", "title": "The values printed in the paper, with the recording's sink, recent and K"},
        {
            "name": "released",
            "title": "The defaults of the authors' released code, with the recording's sink, recent and K",
        },
    ]
    groups = [{"title": title, "open": opened, "items": [items[n] for n in names]} for title, opened, names in _GROUPS]
    return {"groups": groups, "parts": {"lam": items["lam"], "lam_clip": items["lam_clip"]}, "presets": presets}
