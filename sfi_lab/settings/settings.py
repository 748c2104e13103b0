"""The frozen `Settings` dataclass: presets, overrides, dictionaries, settings files and differences."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.settings.fields import FIELDS

_EVERYTHING = 1 << 30  # a K no context reaches: nothing is ever left out, so nothing is ever selected


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Slow-Fast Inference settings; the defaults are the paper's (arXiv 2603.12038), and the released value where it is silent.

    See `FIELDS` for each field's meaning and allowed values. Two published presets disagree and both run:
    `Settings.paper()` and `Settings.released()`; both take K from their speed runs so that they compare at equal K
    (their quality runs used k=3836 and k=4096). `Settings.dense()` is ordinary decoding through the same loop.

    Raises SfiError naming the field and its allowed values for anything unknown or out of range.
    """

    sink: int = 4
    recent: int = 256
    k: int = 2048
    t_max: int = 64
    trigger: str = "sentence"
    period: int = 32
    seed: int = 0
    drift_threshold: float = 0.3
    enders: str = ".?!;\n"
    fire_on: str = "boundary"
    min_gap: int = 0
    cooldown: int = 0
    alpha: float = 0.5
    gamma: float = 0.5
    beta: float = 0.568
    power: float = 1.8
    eta: float = 0.4
    norm_weight: float = 1.0
    position_weight: float = 0.7
    lam: float | str = "auto"
    lam_clip: float | tuple[float, float] = 0.02
    nms_radius: int = 16
    nms_strength: float = 0.5
    exclusivity: float = 0.35
    temperature: float = 2.0
    recent_mode: str = "sliding"
    prefill_window: int = 16
    layer_groups: int = 1
    rectify: bool = False

    def __new__(cls, **values: Any) -> Settings:
        """An unknown name raises here with the nearest known one, before dataclass's own TypeError could."""
        _refuse_unknown(values)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, field in FIELDS.items():
            object.__setattr__(self, name, field.validated(name, getattr(self, name)))

    # presets -------------------------------------------------------------------------------------------------------

    @classmethod
    def paper(cls, **overrides: Any) -> Settings:
        """The values printed in the paper (sections 3-4 and its ablations), released values where it prints none."""
        return cls().with_(**overrides)

    @classmethod
    def released(cls, **overrides: Any) -> Settings:
        """The defaults of the authors' released code (quality branch; K from its speed runs)."""
        released = {
            "t_max": 96,
            "enders": ".?!",
            "fire_on": "next_sentence",
            "min_gap": 16,
            "cooldown": 2,
            "lam_clip": (0.35, 0.25),
            "nms_strength": 1.0,
            "exclusivity": 0.85,
        }
        return cls().with_(**(released | overrides))

    @classmethod
    def dense(cls, **overrides: Any) -> Settings:
        """Ordinary decoding: every step attends to the whole prefix and nothing is selected."""
        return cls().with_(**({"k": _EVERYTHING, "t_max": 0, "trigger": "never"} | overrides))

    @property
    def is_dense(self) -> bool:
        """True if K is beyond any context, so that every step reads everything."""
        return self.k >= _EVERYTHING

    # changes -------------------------------------------------------------------------------------------------------

    def with_(self, **overrides: Any) -> Settings:
        """A copy with some fields changed; an unknown name raises and suggests the nearest one."""
        _refuse_unknown(overrides)
        return replace(self, **overrides)

    def diff(self, other: Settings) -> dict[str, tuple[Any, Any]]:
        """Fields that differ, as {name: (this value, other's value)}."""
        return {f: (getattr(self, f), getattr(other, f)) for f in FIELDS if getattr(self, f) != getattr(other, f)}

    def lam_clip_for(self, rows: int) -> float:
        """λ_clip for `rows` query rows (group's query heads × window): the pair's first entry is for a single row."""
        if isinstance(self.lam_clip, tuple):
            return self.lam_clip[0] if rows == 1 else self.lam_clip[1]
        return self.lam_clip

    def selector(self, rows: int) -> dict[str, Any]:
        """What the selector reads beside K, for `rows` query rows: keyword arguments as the kernels take them."""
        names = ("alpha", "gamma", "beta", "power", "eta", "norm_weight", "position_weight", "lam", "nms_radius",
                 "nms_strength", "exclusivity", "temperature")  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"lam_clip": self.lam_clip_for(rows)}

    # in and out ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values (a pair becomes a list, so that JSON round-trips)."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """From a dictionary; missing fields take the defaults, unknown ones raise."""
        return cls().with_(**values)

    @classmethod
    def from_toml(cls, path: str | Path, base: Settings | None = None) -> Settings:
        """`base` (default: the defaults) with the fields that a TOML file sets; what `--settings` reads on the command line.

        Raises SfiError for a file that can't be read or is no TOML, an unknown field or a value that isn't allowed.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SfiError(f"settings file {path} can't be read: {reason}") from None
        except tomllib.TOMLDecodeError as error:
            raise SfiError(f"settings file {path} is not valid TOML: {error}") from None
        return (base or cls()).with_(**values)

    def to_code(self) -> str:
        """The shortest Python expression that makes these settings, e.g. `Settings.paper(k=256)`."""
        presets = {"paper": Settings.paper(), "released": Settings.released()}
        if self.is_dense:
            presets["dense"] = Settings.dense()
        name, preset = min(presets.items(), key=lambda item: len(item[1].diff(self)))
        changed = ", ".join(f"{field}={mine!r}" for field, (_, mine) in preset.diff(self).items())
        return f"Settings.{name}({changed})"


def _refuse_unknown(values: dict[str, Any]) -> None:
    known = {f.name for f in fields(Settings)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise SfiError(f"unknown setting {name!r}{hint} Known settings: {', '.join(FIELDS)}")
