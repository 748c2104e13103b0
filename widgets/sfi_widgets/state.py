"""What a person has chosen: settings, layer, head, cursor, range. Plain traitlets, so it is tested with no front end."""

from __future__ import annotations

from typing import Any

import traitlets as T

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings

MEAN = -1  # as a KV head: the mean over all KV heads of the layer


class LabState(T.HasTraits):
    """The workbench's choices; every panel and every computation hangs on this one object.

    settings: a `Settings`; anything else raises. Use `apply` for changes typed by a person.
    layer, kv_head: what the panels show; kv_head -1 is the mean over `among`.
    among: the KV heads a mean is taken over; () is all of the layer.
    cursor: a step of the trace, clamped to the recorded ones.
    brush: the visible range of steps [first, last + 1).
    span: the visible range of positions [first, last + 1).
    probe: a position pointed at in any panel, -1 for none.
    error: the last refused change as one sentence, "" if the last one was fine.
    """

    settings = T.Instance(Settings)
    layer = T.Int()
    kv_head = T.Int(MEAN)
    among = T.Tuple()
    cursor = T.Int(0)
    brush = T.Tuple(T.Int(), T.Int())
    span = T.Tuple(T.Int(), T.Int())
    probe = T.Int(-1)
    error = T.Unicode("")

    def __init__(
        self, *, settings: Settings, layers: list[int], kv_heads: int, steps: int, positions: int, recording: str = ""
    ) -> None:
        self.recording = recording  # which trace the choices belong to
        self.layers, self.kv_heads, self.steps, self.positions = list(layers), kv_heads, steps, positions
        self._recorded = settings
        super().__init__(
            settings=settings, layer=self.layers[0], cursor=min(1, steps - 1), brush=(0, steps), span=(0, positions)
        )

    @property
    def heads(self) -> tuple[int, ...]:
        """The KV heads shown: one, or those of the mean."""
        if self.kv_head != MEAN:
            return (self.kv_head,)
        return self.among or tuple(range(self.kv_heads))

    @property
    def head_name(self) -> str:
        """The heads shown, in words."""
        if self.kv_head != MEAN:
            return f"KV head {self.kv_head}"
        return "mean of KV heads" + (f" {', '.join(map(str, self.among))}" if self.among else "")

    def take_over(self, other: LabState) -> None:
        """Settings, layer, heads, cursor and ranges of another state of the same recording."""
        with self.hold_trait_notifications():
            for name in ("settings", "layer", "among", "kv_head", "cursor", "brush", "span"):
                setattr(self, name, getattr(other, name))

    # changes -------------------------------------------------------------------------------------------------------

    def apply(self, **changes: Any) -> bool:
        """Changes settings by field name. A refused change leaves them as they are and puts a sentence into `error`."""
        return self._try(lambda: self.settings.with_(**changes))

    def apply_code(self, code: str) -> bool:
        """Settings from an expression such as `Settings.paper(k=256)`; only literals are read, nothing is executed."""
        return self._try(lambda: settings_from_code(code))

    def reset(self) -> None:
        """Back to the settings of the recording."""
        self.settings = self._recorded
        self.error = ""

    def _try(self, make: Any) -> bool:
        before = self.settings
        try:
            self.settings = make()
        except SfiError as error:
            self.settings = before  # allowed in itself, but not on this recording
            self.error = str(error)
            return False
        self.error = ""
        return True

    # checks --------------------------------------------------------------------------------------------------------

    @T.validate("layer")
    def _known_layer(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] not in self.layers:
            raise SfiError(
                f"layer {proposal['value']} was not recorded; recorded layers: {', '.join(map(str, self.layers))}"
            )
        return proposal["value"]

    @T.validate("kv_head")
    def _known_head(self, proposal: dict[str, Any]) -> int:
        if not MEAN <= proposal["value"] < self.kv_heads:
            raise SfiError(
                f"KV head {proposal['value']} does not exist; allowed: 0 to {self.kv_heads - 1}, or -1 for the mean"
            )
        return proposal["value"]

    @T.validate("among")
    def _known_heads(self, proposal: dict[str, Any]) -> tuple[int, ...]:
        chosen = tuple(sorted(set(proposal["value"])))
        if chosen and not 0 <= chosen[0] <= chosen[-1] < self.kv_heads:
            raise SfiError(f"KV heads {list(chosen)} do not all exist; allowed: 0 to {self.kv_heads - 1}")
        return () if len(chosen) == self.kv_heads else chosen

    @T.validate("cursor")
    def _inside(self, proposal: dict[str, Any]) -> int:
        return min(max(proposal["value"], 0), self.steps - 1)

    @T.validate("brush")
    def _some_steps(self, proposal: dict[str, Any]) -> tuple[int, int]:
        return _range(proposal["value"], self.steps)

    @T.validate("span")
    def _some_positions(self, proposal: dict[str, Any]) -> tuple[int, int]:
        return _range(proposal["value"], self.positions)


def _range(pair: tuple[int, int], end: int) -> tuple[int, int]:
    first, last = sorted(pair)
    first = min(max(first, 0), end - 1)
    return first, min(max(last, first + 1), end)


def settings_from_code(code: str) -> Settings:
    """`Settings.paper(k=256)` or `Settings(k=64)` as a Settings; SfiError in one sentence for anything else."""
    import ast

    wrong = SfiError("settings as code are one call with plain values, e.g. Settings.paper(k=256, lam=0.1)")
    try:
        call = ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        raise wrong from None
    if not isinstance(call, ast.Call) or call.args:
        raise wrong
    name = ast.unparse(call.func).removeprefix("sfi.").removeprefix("sfi_lab.")
    presets = {
        "Settings": Settings, "Settings.paper": Settings.paper, "Settings.released": Settings.released,
        "Settings.dense": Settings.dense,
    }  # fmt: skip
    if name not in presets:
        raise SfiError(f"{name} is not a preset; known: {', '.join(presets)}")
    try:
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        raise wrong from None
    return presets[name]().with_(**values)
