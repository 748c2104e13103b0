"""Decode again: the recorded prompt under the current settings, streamed from a thread beside the recorded text."""

from __future__ import annotations

import threading
import time
from typing import Any

import traitlets as T

from sfi_lab.errors import SfiError
from sfi_lab.trace.request import default_trace

from .background import background
from .panel import Panel, module
from .session import Session

_EVERY = 0.05  # seconds between messages to the browser while tokens stream


class DecodeAgain(Panel):
    """Runs `lab.stream` on the recorded prompt in a background thread; a *re-run*, unlike what the other panels compute.

    start(), stop(), wait(): the buttons, callable from Python. `steps` holds the new run's steps. Without a lab the first
    start loads the model that the recording names. method: another way to decode than SFI, with its parameters
    ("snapkv:window=16"), at the settings' sink + recent + K positions. record: also write a trace of the run, which
    `Workbench(panel.trace_path)` shows in the same panels and `Compare` beside the present one.
    """

    _esm = module("decode_again.mjs")
    height = T.Int(190).tag(sync=True)  # CSS pixels
    tokens = T.Int(64).tag(sync=True)
    methods = T.List(T.Dict()).tag(sync=True)  # name, title and what it does, for the choice
    method = T.Unicode("sfi").tag(sync=True)
    record = T.Bool(False).tag(sync=True)
    trace_path = T.Unicode("").tag(sync=True)
    running = T.Bool(False).tag(sync=True)
    words = T.List(T.Unicode()).tag(sync=True)
    ids = T.List(T.Int()).tag(sync=True)
    recorded_ids = T.List(T.Int()).tag(sync=True)
    status = T.Unicode("").tag(sync=True)
    summary = T.Unicode("").tag(sync=True)
    error = T.Unicode("").tag(sync=True)

    def __init__(self, source: Any, **traits: object) -> None:
        session = source if isinstance(source, Session) else Session(source)
        traits.setdefault("tokens", session.trace.steps.height)
        super().__init__(session, recorded_ids=session.trace.token_ids, methods=_methods(), **traits)
        self.steps: list[Any] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.on_msg(self._on_button)

    # buttons -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins a run with the settings as they are now; does nothing while one is running."""
        if self.running:
            return
        self._stop.clear()
        self.steps = []
        with self.hold_sync():
            self.running, self.error, self.summary = True, "", ""
            self.words, self.ids, self.status, self.trace_path = [], [], "reading the prompt", ""
        self._thread = background(
            self._run, self.state.settings, self.tokens, self.method, self.record, end=self._stop.set
        )

    def stop(self) -> None:
        """Ends the run after the token in work; what was made stays."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the run to end; True if it has."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.running

    def _on_button(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        {"start": self.start, "stop": self.stop}.get(content.get("do", ""), lambda: None)()

    # the run -------------------------------------------------------------------------------------------------------

    def _recording(self, settings: Any, method: Any) -> dict[str, Any]:
        """What `stream` is asked to record: as much as the shown trace holds and the method allows, into a folder of its own."""
        meta = self.session.trace.meta
        level, layers = (
            meta["record"],
            {"record_layers": meta["support_layers"], "qk_layers": meta["qk_layers"] or None},
        )
        if method.settings(settings).rectify:  # makes keys and values anew, which a recording of them can't follow
            level, layers["qk_layers"] = level.removesuffix("+qk"), None
        return {"record": level, "trace": default_trace(meta["model"]["name"]), **layers}

    def _run(self, settings: Any, tokens: int, name: str, record: bool) -> None:
        from sfi_lab.methods import parse_method  # brings torch along

        try:
            method = parse_method(name)
            recording = self._recording(settings, method) if record else {}
            lab = self._lab()
            prompt = self.session.trace.tokens.filter(self.session.trace.tokens["role"] == "prompt")[
                "token_id"
            ].to_list()
            started = shown = time.perf_counter()
            words, ids = [], []
            for step in lab.stream(
                prompt, settings, max_new_tokens=tokens, method=method, **recording, **self._sampling()
            ):
                self.steps.append(step)
                words.append(step.text)
                ids.append(step.token_id)
                if time.perf_counter() - shown > _EVERY:
                    shown = time.perf_counter()
                    self._publish(words, ids, f"{len(ids)} of {tokens} tokens")
                if self._stop.is_set():
                    break
            seconds = time.perf_counter() - started
            how = "stopped" if self._stop.is_set() else "done"
            self._publish(words, ids, f"re-run {how} in {seconds:.1f} s")
            self.trace_path = str(recording.get("trace", ""))
        except SfiError as error:
            self.error = str(error)
        except Exception as error:  # a person must see it in the panel, not in a server's log
            self.error = f"the run ended with {type(error).__name__}: {error}"
        finally:
            with self.hold_sync():
                self.running = False
                if self.error:
                    self.status = "no result"

    def _lab(self) -> Any:
        name = self.session.trace.meta["model"]["name"]
        if self.session.lab is None:
            from sfi_lab import load

            self.status = f"loading {name}"
            self.session.lab = load(name, progress=False)
        lab = self.session.lab
        if lab.name != name:
            raise SfiError(
                f"the recording was made with {name}, but this lab has {lab.name}: decode again with sfi_lab.load({name!r})"
            )
        return lab

    def _sampling(self) -> dict[str, Any]:
        """The recording's own way to choose tokens, so that only the settings differ."""
        meta = self.session.trace.meta
        if "generation" not in meta:
            return {}
        from transformers import GenerationConfig

        return {"generation_config": GenerationConfig.from_dict(meta["generation"]), "seed": meta["seed"]}

    def _publish(self, words: list[str], ids: list[int], status: str) -> None:
        decoded = self.steps[1:]
        slow = sum(step.route == "slow" for step in decoded)
        read, available = sum(s.keys_read for s in decoded), sum(s.keys_available for s in decoded)
        share = f", {100 * read / available:.1f} % of keys read" if available else ""
        kept = f", {self.steps[-1].bytes_kept / 1e6:.1f} MB kept" if self.steps and self.steps[-1].bytes_kept else ""
        with self.hold_sync():
            self.words, self.ids, self.status = list(words), list(ids), status
            self.summary = f"New: {len(ids)} tokens, {slow} slow steps of {len(decoded)}{share}{kept}"

    def shows(self) -> str:
        if not self.ids:
            return "no new run"
        same = next((i for i, (a, b) in enumerate(zip(self.ids, self.recorded_ids, strict=False)) if a != b), None)
        where = "same tokens" if same is None else f"differs from token {same + 1}"
        return f"{len(self.ids)} tokens, {where}"


def _methods() -> list[dict[str, str]]:
    """Every method with its title and the first sentence of what it does."""
    from sfi_lab.methods import METHODS  # a dozen modules that no other panel needs

    return [
        {"name": name, "title": method.title, "meaning": (method.__doc__ or "").strip().split("\n")[0]}
        for name, method in METHODS.items()
    ]
