"""Compare: two settings on one recording, or two recordings, side by side - selections, numbers and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import traitlets as T

from sfi_lab import Settings, Trace
from sfi_lab.analysis import fidelity, first_divergence
from sfi_lab.errors import SfiError

from . import columns
from .columns import Ranking
from .deep_twins import compare_figure
from .panel import Panel, module
from .session import Session

Given = Trace | Settings | tuple[Trace, Settings] | Session


@dataclass(frozen=True, slots=True)
class Side:
    """One side under one layer and head. kept: float32 [steps], NaN where there is none, re-selected from queries and keys or, where
    the layer has none, as an audit recorded it; keys_read: float32 [steps]."""

    name: str
    settings: Settings
    kind: str  # exact or proxy; "exact" also for what was recorded
    ranking: Ranking
    kept: np.ndarray | None
    keys_read: np.ndarray
    lam: float | None
    kl: float | None

    @property
    def steps(self) -> int:
        return len(self.keys_read)


class Compare(Panel):
    """A against B: what only one of them selected, and how their numbers differ, each with its kind.

    `Compare((trace, settings_a), (trace, settings_b))`, `Compare(trace, settings_b)` (A as recorded), or
    `Compare(trace_a, trace_b)`. B may be a workbench's session: then B follows the live settings and `pin()` makes them A.
    B's layer, head, cursor and ranges are followed; step i of A stands beside step i of B.
    """

    _esm = module("compare.mjs")
    height = T.Int(300).tag(sync=True)  # CSS pixels
    a = T.Dict().tag(sync=True)
    b = T.Dict().tag(sync=True)
    metrics = T.List(T.Dict()).tag(sync=True)
    tokens = T.Dict().tag(sync=True)
    note = T.Unicode("").tag(sync=True)
    error = T.Unicode("").tag(sync=True)
    pinned = T.Bool(False).tag(sync=True)

    def __init__(self, a: Given, b: Given | None = None, **traits: object) -> None:
        if isinstance(a, Session) and b is None:  # a workbench: A is the recording until something is pinned
            a, b = (a.trace, a.trace.settings), a
        trace, first = _trace_and_settings(a, None)
        session = b if isinstance(b, Session) else None
        if session is None:
            other, second = _trace_and_settings(b, trace)
            session = Session(other)
            session.state.settings = second
        self._a_settings = first
        self._a_session = session if trace is session.trace else Session(trace)
        self.sides: tuple[Side, Side] | None = None
        super().__init__(session, **traits)
        self.state.observe(lambda _: self.refresh(), ["settings", "layer", "kv_head", "among"])
        self.observe(lambda _: self.refresh(), "live")
        self.on_msg(self._on_button)
        self._recorded_tokens()
        self.refresh()

    @property
    def a_settings(self) -> Settings:
        """The settings of A."""
        return self._a_settings

    # what a person does ----------------------------------------------------------------------------------------------

    def pin(self, settings: Settings | None = None) -> None:
        """Makes the current settings (or the given ones) A."""
        self._a_settings = settings or self.state.settings
        self.pinned = self._a_settings != self._a_session.trace.settings
        self.refresh()

    def unpin(self) -> None:
        """A is the recording again."""
        self.pin(self._a_session.trace.settings)

    def _on_button(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        {"pin": self.pin, "unpin": self.unpin}.get(content.get("do", ""), lambda: None)()

    # what is shown ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Compares the chosen layer and head under both settings."""
        if not self.live:
            return
        session, left = self.session, self._a_session
        try:
            if left is not session:
                left.state.layer = self.state.layer
                left.state.kv_head, left.state.among = self.state.kv_head, self.state.among
            self.sides = one, two = _side("A", left, self._a_settings), _side("B", session, self.state.settings)
        except SfiError as error:
            self.sides, self.error = None, str(error)
            self.a, self.b, self.metrics = {}, {}, []
            return
        with self.hold_sync():
            self.error = ""
            self.a, self.b = _wire(one, left), _wire(two, session)
            self.metrics = _metrics(one, two)
            self.note = self._note(one, two)

    def difference(self, step: int) -> dict[str, np.ndarray]:
        """Positions selected at a step by "both", only by "a", only by "b"; ascending."""
        one, two = (_at(side, step) for side in self.sides)
        return {
            "both": np.intersect1d(one, two),
            "a": np.setdiff1d(one, two),
            "b": np.setdiff1d(two, one),
        }

    def show_tokens(self, a: list[str], b: list[str], a_ids: list[int], b_ids: list[int], kind: str) -> None:
        """Puts two token lists beside each other. kind: "exact" for recorded ones, "re-run" for a new run."""
        at = first_divergence(a_ids, b_ids)
        same = sum(x == y for x, y in zip(a_ids, b_ids, strict=False))
        self.tokens = {
            "a": a, "b": b, "differs": [x != y for x, y in zip(a_ids, b_ids, strict=False)],
            "first": -1 if at is None else at, "same": same, "kind": kind,
        }  # fmt: skip

    def _recorded_tokens(self) -> None:
        one, two = self._a_session.trace, self.session.trace
        if one is not two:
            self.show_tokens(
                one.steps["text"].to_list(), two.steps["text"].to_list(), one.token_ids, two.token_ids, "exact"
            )

    def _note(self, one: Side, two: Side) -> str:
        first, second = self._a_session.trace, self.session.trace
        words = [
            f"{side.name} has no mass kept: layer {self.state.layer} was recorded without queries and keys, and without an audit"
            for side in (one, two)
            if side.kept is None
        ]
        if first is second:
            return "; ".join(
                ["one recording, so one trajectory: tokens can only differ in a re-run (Decode again)", *words]
            )
        prompts = [t.tokens.filter(t.tokens["role"] == "prompt")["token_id"].to_list() for t in (first, second)]
        if prompts[0] != prompts[1]:
            words.insert(0, "the prompts differ, so equal positions hold different tokens")
        if one.steps != two.steps:
            words.append(f"compared over the first {min(one.steps, two.steps)} steps")
        return "; ".join(words)

    def to_figure(self):
        """The same map, curves and numbers as a matplotlib figure."""
        with self.awake():
            return compare_figure(self)

    def shows(self) -> str:
        if self.sides is None:
            return self.error or "not shown yet"
        overlap = next(m for m in self.metrics if m["name"] == "overlap")
        both = "; ".join(f"{s.name} {s.kind} {s.settings.to_code()}" for s in self.sides)
        return f"{both}; selections overlap {overlap['b']:.3f}, sha {columns.digest(*(s.ranking.rows.ids for s in self.sides))}"


def _trace_and_settings(given: Any, same: Trace | None) -> tuple[Trace, Settings]:
    if isinstance(given, Trace):
        return given, given.settings
    if isinstance(given, Settings) and same is not None:
        return same, given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Trace) and isinstance(given[1], Settings):
        return given
    raise SfiError(
        f"Compare takes a Trace or (Trace, Settings) on each side, and Settings alone as B, not {type(given).__name__}"
    )


def _side(name: str, session: Session, settings: Settings) -> Side:
    """What the session's visible layer does under `settings`; the recording itself where nothing can be re-selected."""
    trace = session.trace
    recorded = settings == trace.settings
    kl = fidelity(trace)["kl"] if recorded and trace.steps["kl"].null_count() < trace.steps.height else None
    now = session.reselect(settings)
    if now is None:
        if not recorded:
            raise SfiError(session.why_not)
        read = trace.steps["keys_read"].to_numpy().astype(np.float32)
        read = np.where((trace.steps["route"] == "prefill").to_numpy(), np.float32(0), read)
        return Side(name, settings, "exact", session.recorded, _audited(session), read, None, kl)
    lam = float(now.lam.mean()) if len(now.lam) else None
    return Side(name, settings, now.kind, now.ranking, now.kept, now.keys_read.astype(np.float32), lam, kl)


def _audited(session: Session) -> np.ndarray | None:
    """Mass kept by the chosen layer and heads as an audit measured it beside the run, float32 [steps]; None without an audit."""
    rows = session.trace.support.filter(
        (pl.col("layer") == session.state.layer) & pl.col("kv_head").is_in(list(session.state.heads))
    )
    means = rows.group_by("step").agg(pl.col("missed").mean()).drop_nulls().collect()
    decoded = means.filter(pl.col("step").is_in(session.trace.decode_steps))
    if not decoded.height:
        return None
    kept = np.full(session.state.steps, np.nan, np.float32)
    kept[decoded["step"].to_numpy()] = 1 - decoded["missed"].to_numpy()
    return kept


def _at(side: Side, step: int) -> np.ndarray:
    refresh = int(np.searchsorted(side.ranking.steps, step, side="right")) - 1
    return side.ranking.at(refresh, side.settings.k) if refresh >= 0 else np.empty(0, np.int32)


def _wire(side: Side, session: Session) -> dict[str, Any]:
    return {
        **columns.wire_ids(columns.cut(side.ranking, session.room(side.ranking)).rows, session.state.positions),
        "steps": side.ranking.steps.tobytes(),
        "heads": side.ranking.heads,
        "k": side.settings.k,
        "count": side.steps,
        "name": session.trace.path.name,
        "code": side.settings.to_code(),
        "kind": side.kind,
        "kept": b"" if side.kept is None else side.kept.tobytes(),
    }


def _metrics(one: Side, two: Side) -> list[dict[str, Any]]:
    """name, title, a, b (None where a side has none), kind of each, and the kind of their difference."""

    def row(name: str, title: str, a: float | None, b: float | None, kinds: tuple[str, str]) -> dict[str, Any]:
        kind = "proxy" if "proxy" in kinds else "exact"
        return {"name": name, "title": title, "a": a, "b": b, "a_kind": kinds[0], "b_kind": kinds[1], "kind": kind}

    kinds = (one.kind, two.kind)
    kept = [None if s.kept is None else float(np.nanmean(s.kept)) for s in (one, two)]
    keys = [float(s.keys_read[s.keys_read > 0].mean()) for s in (one, two)]
    rows = [
        row("kept", "mass kept", *kept, kinds),
        row("missed", "mass missed", *(None if k is None else 1 - k for k in kept), kinds),
        row("keys", "keys read a step", *keys, kinds),
        row("refreshes", "refreshes", float(len(one.ranking.steps)), float(len(two.ranking.steps)), kinds),
        row("lam", "λ, mean over refreshes", one.lam, two.lam, kinds),
        row("kl", "KL to dense (nats)", one.kl, two.kl, ("exact", "exact")),
    ]
    overlap = _overlap(one, two)
    return [*rows, row("overlap", "Jaccard of the selections, mean over steps", overlap, overlap, kinds)]


def _overlap(one: Side, two: Side) -> float:
    n = min(one.steps, two.steps)
    starts = np.unique(np.r_[1, one.ranking.steps, two.ranking.steps])
    starts = starts[starts < n]
    lengths = np.diff(np.append(starts, n))
    values = []
    for step in starts:
        x, y = _at(one, step), _at(two, step)
        union = len(np.union1d(x, y))
        values.append(len(np.intersect1d(x, y)) / union if union else 1.0)
    return float(np.average(values, weights=lengths)) if len(values) else 1.0
