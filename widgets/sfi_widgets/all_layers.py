"""Every layer with queries and keys under the current settings, from a thread: the newest request wins."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sfi_lab import Settings, Trace
from sfi_lab.analysis import WhatIf, whatif
from sfi_lab.errors import SfiError

from .background import background

_KEPT_BYTES = 1 << 29  # attention weights of layers that may stay in memory between runs
_PAUSE = 0.6  # seconds without a change before a run begins: a slider in motion has the processor to itself


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
        self._number, self._settings = 0, trace.settings
        self._overtaken = threading.Event()
        self._thread: threading.Thread | None = None
        self._pausing = False  # the thread has not begun to run and takes newer requests

    def ask(self, settings: Settings) -> None:
        """Takes a request; an older one stops at its next layer and hands over nothing more."""
        with self._lock:
            self._number, self._settings = self._number + 1, settings
            self._overtaken.set()
            self._overtaken = threading.Event()
            self._started()
            if not self._pausing:  # a drag asks dozens of times: starting a thread each time would slow it down
                self._pausing = True
                self._thread = background(self._work, end=self._give_up)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the newest request; True if it has ended."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _give_up(self) -> None:
        """Nobody wants the newest request any more."""
        with self._lock:
            self._number += 1
            self._overtaken.set()

    def hand_over(self, to: AllLayers) -> None:
        """Gives the layers kept between runs to another one on the same recording; this one keeps none until it runs again."""
        if self._replays and self.wait(0):
            to._replays, self._replays = self._replays, {}

    def _work(self) -> None:
        """Waits until nothing was asked for a while, then runs the newest request."""
        while True:
            with self._lock:
                number, settings, overtaken = self._number, self._settings, self._overtaken
            overtaken.wait(self._pause)
            with self._lock:
                if number == self._number:
                    self._pausing = False
                    break
        self._run(settings, number, overtaken)

    def _run(self, settings: Settings, number: int, overtaken: threading.Event) -> None:
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
    """What the attention mass of all recorded layers takes."""
    positions = trace.steps["keys_available"].max()
    return 4 * len(trace.qk_layers) * len(trace.decode_steps) * trace.kv_heads * positions
