"""Work in a thread that the end of the interpreter waits for."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

_PATIENCE = 10.0  # seconds that an interpreter in the act of leaving waits for work that was asked to end


def background(work: Callable[..., None], *arguments: Any, end: Callable[[], None] = lambda: None) -> threading.Thread:
    """Starts `work(*arguments)` in a thread and returns it.

    An interpreter that exits calls `end` and waits a while: torn down under a running operation, torch aborts the process.
    """

    def leave() -> None:
        end()
        thread.join(_PATIENCE)

    def run() -> None:
        try:
            work(*arguments)
        finally:
            atexit.unregister(leave)

    thread = threading.Thread(target=run, daemon=True)
    atexit.register(leave)
    thread.start()
    return thread
