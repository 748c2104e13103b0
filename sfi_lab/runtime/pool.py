"""The engines of one Lab: memory and captured graphs are kept for the next run with the same settings.

K/V that a session made in fast steps can't be made again by reading its text, so cached positions move with the session:
into its reference state when the engine goes to another session, and back when it decodes on an engine again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfi_lab.runtime.engine import Engine, EngineOptions
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.decoder.session import Session
    from sfi_lab.lab import Lab

_LEAST = 4096  # positions of a new engine, where the model has as many


@dataclass
class _Held:
    engine: Engine
    owner: Callable[[], Session | None]  # a weak reference
    busy: bool = False


class EnginePool:
    """Lends engines to sessions. One that is idle may go to another session."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    def of(self, session: Session) -> Engine | None:
        """The engine that still holds this session's text, if any."""
        return next((held.engine for held in self._held if held.owner() is session), None)

    def take(self, session: Session, lab: Lab, settings: Settings, length: int, options: EngineOptions) -> Engine:
        """An engine with room for `length` positions, marked busy; with this session's cached text where it had one.

        Raises SfiError if there isn't the memory.
        """
        mine = next((held for held in self._held if held.owner() is session), None)
        if mine is not None and self._fits(mine, settings, length, options):
            mine.busy = True
            return mine.engine
        idle = [held for held in self._held if not held.busy and held is not mine]
        chosen = next((held for held in idle if self._fits(held, settings, length, options)), None)
        for held in idle:
            if held is not chosen:  # its memory is needed, or will be
                self._move_out(held)
                self._held.remove(held)
        idle.clear()
        if chosen is None:
            room = min(max(_LEAST, length + length // 4), lab.spec.max_positions or length)
            chosen = _Held(
                Engine(lab.model, lab.spec, settings, 1, max(room, length), options=options), weakref.ref(session)
            )
            chosen.engine.prepare()
            self._held.append(chosen)
        self._move_out(chosen)
        if mine is not None:
            copy_text(mine.engine, chosen.engine)
            self._held.remove(mine)
        chosen.owner, chosen.busy = weakref.ref(session), True
        return chosen.engine

    def give_back(self, session: Session) -> None:
        """The session's run has ended; it keeps the engine until another session needs it."""
        for held in self._held:
            if held.owner() is session:
                held.busy = False

    def move_out(self, session: Session) -> None:
        """The session goes on without an engine: its cached positions move into its reference state."""
        for held in self._held:
            if held.owner() is session:
                self._move_out(held)

    @staticmethod
    def _move_out(held: _Held) -> None:
        """Empties an engine; a session that still lives keeps what it had."""
        owner, engine = held.owner(), held.engine
        if owner is not None and engine.lengths[0]:
            owner.state.cache.truncate(0)
            for layer, full in enumerate(owner.state.cache.full):
                full.append(*engine.cache.rows(layer, 0, engine.lengths[0]))
        engine.lengths, held.owner = [0], _nobody

    @staticmethod
    def _fits(held: _Held, settings: Settings, length: int, options: EngineOptions) -> bool:
        engine = held.engine
        return engine.settings == settings and engine.options == options and engine.cache.capacity >= length


def _nobody() -> None:
    """A reference to no session."""


def move_in(session: Session, engine: Engine) -> None:
    """The session's cached positions move from its reference state into the engine."""
    if session.state.length == 0:
        return
    for layer, full in enumerate(session.state.cache.full):
        engine.cache.put(layer, 0, full.k, full.v)
    engine.lengths[0] = session.state.length
    session.state.cache.truncate(0)


def copy_text(old: Engine, new: Engine) -> None:
    """Copies the first sequence's cached positions from one engine to another."""
    length = old.lengths[0]
    for layer in range(new.plan.layers):
        new.cache.put(layer, 0, *old.cache.rows(layer, 0, length))
    new.lengths[0] = length
