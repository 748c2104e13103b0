"""Every layer with queries and keys under the current settings, from a thread: the newest request wins."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sfi_lab import Settings, Trace
from sfi_lab.analysis import WhatIf, whatif
from sfi_lab.errors import SfiError

_KEPT_BYTES = 1 << 29  # attention weights of layers that may stay in memory between runs
_PAUSE = 0.25  # seconds without a change before a run begins, so that a dragged slider has the processor to itself


class AllLayers:
    """Runs `whatif` over all layers for the newest settings asked for.

    started(): a request was taken, what was shown is stale. progress(done, of): layers done. finished(WhatIf): the result.
    failed(str): a sentence. All but `started` are called from the thread, and never for a request that is not the newest.
    """

    def __init__(
        self,
        trace: Trace,
        started: Callable[[], None],
        progress: Callable[[int, int], None],
        finished: Callable[[WhatIf], None],
        failed: Callable[[str], None],
        pause: float = _PAUSE,
    ) -> None:
        self._trace, self._pause = trace, pause
        self._replays: dict | None = {} if _weights_bytes(trace) <= _KEPT_BYTES else None
        self._started, self._progress, self._finished, self._failed = started, progress, finished, failed
        self._lock = (
            threading.RLock()
        )  # held while a result is handed over, so that a new request can't slip in between
        self._number = 0
        self._newest = threading.Event()
        self._thread: threading.Thread | None = None

    def ask(self, settings: Settings) -> None:
        """Takes a request; an older one stops at its next layer and hands over nothing more."""
        with self._lock:
            self._number += 1
            self._newest.set()
            self._newest = mine = threading.Event()
            self._started()
            self._thread = threading.Thread(target=self._run, args=(settings, self._number, mine), daemon=True)
            self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the newest request; True if it has ended."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, settings: Settings, number: int, overtaken: threading.Event) -> None:
        if overtaken.wait(self._pause):
            return
        try:
            found = whatif(
                self._trace,
                settings,
                progress=lambda done, of: self._hand_over(number, self._progress, done, of),
                cancel=overtaken.is_set,
                output_error=False,
                replays=self._replays,
            )
        except SfiError as error:
            self._hand_over(number, self._failed, str(error))
        except Exception as error:  # shown in the panel, not in a server's log
            self._hand_over(number, self._failed, f"no summaries: {type(error).__name__}: {error}")
        else:
            self._hand_over(number, self._finished, found)

    def _hand_over(self, number: int, receive: Callable[..., None], *values: object) -> None:
        with self._lock:
            if number == self._number:
                receive(*values)


def _weights_bytes(trace: Trace) -> int:
    """What the attention weights of all recorded layers take."""
    positions = trace.steps["keys_available"].max()
    return 4 * len(trace.qk_layers) * len(trace.decode_steps) * trace.meta["model"]["query_heads"] * positions
