"""What each setting means and which values it takes: one table that validation, tooltips and docs are made from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sfi_lab.errors import SfiError


@dataclass(frozen=True, slots=True)
class Field:
    """One setting: its symbol in the paper, a sentence for a person, the allowed values and a check that returns them.

    `check` takes the raw value and returns the stored one (e.g. an int for 4.0), or raises ValueError. `option` is its name
    on the command line where that isn't the field's own.
    """

    symbol: str
    meaning: str
    allowed: str
    check: Callable[[Any], Any]
    option: str | None = None

    def validated(self, name: str, value: Any) -> Any:
        """The value to store; SfiError names the field, the value and what is allowed."""
        try:
            return self.check(value)
        except (TypeError, ValueError, OverflowError):  # the last one: infinity as a whole number
            raise SfiError(f"setting {name} = {value!r} is not allowed; allowed: {self.allowed}") from None


def _integer(low: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or int(value) != value or int(value) < low:
            raise ValueError
        return int(value)

    return check


def _number(low: float, high: float = math.inf, *, above: bool = False) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        if isinstance(value, (bool, str)):
            raise TypeError
        number = float(value)
        if not math.isfinite(number) or number > high or number < low or (above and number == low):
            raise ValueError
        return number

    return check


def _choice(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError
        return value

    return check


def _flag(value: Any) -> bool:
    if value not in (True, False):
        raise ValueError
    return bool(value)


def _enders(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return "".join(dict.fromkeys(value))


_share = _number(0.0, 1.0)


def _lam(value: Any) -> float | str:
    return value if value == "auto" else _share(value)


def _lam_clip(value: Any) -> float | tuple[float, float]:
    if isinstance(value, (tuple, list)):
        one_row, several_rows = value
        return (_share(one_row), _share(several_rows))
    return _share(value)


# The trigger policies, the one place that lists them: the setting's value and its class in `sfi_lab.trigger`, which reads
# the classes from here. Words, not imports: settings stand below the policies and load without torch.
TRIGGERS: Mapping[str, str] = MappingProxyType(
    {
        "sentence": "sentence.SentencePolicy",
        "period": "period.PeriodPolicy",
        "random": "random_interval.RandomPolicy",
        "drift": "drift.DriftPolicy",
        "never": "never.NeverPolicy",
    }
)

FIELDS: dict[str, Field] = {
    "sink": Field("sink", "first positions that every step reads", "a whole number ≥ 0", _integer(0)),
    "recent": Field("recent", "newest positions that every step reads", "a whole number ≥ 1", _integer(1)),
    "k": Field("K", "positions selected per layer and KV head at a slow step", "a whole number ≥ 1", _integer(1)),
    "t_max": Field(
        "T_max", "fast steps after which a slow step is forced; 0 = no cap", "a whole number ≥ 0", _integer(0)
    ),
    "trigger": Field("trigger", "what makes a step slow, beside T_max", " | ".join(TRIGGERS), _choice(*TRIGGERS)),
    "period": Field("period", "steps between refreshes (mean of them for 'random')", "a whole number ≥ 1", _integer(1)),
    "seed": Field("seed", "seed of the random trigger and of sampling", "a whole number ≥ 0", _integer(0)),
    "drift_threshold": Field(
        "drift",
        "1 - cosine of queries to the last refresh's, above which 'drift' fires",
        "a number in [0, 2]",
        _number(0, 2),
    ),
    "enders": Field(
        "T_trig",
        "characters that end a sentence; full-width forms count as their ASCII form",
        "a non-empty string",
        _enders,
    ),
    "fire_on": Field(
        "fire on",
        "refresh on the sentence's last token, or on the first token of the next sentence",
        "boundary | next_sentence",
        _choice("boundary", "next_sentence"),
    ),
    "min_gap": Field(
        "min gap", "steps since a refresh before a sentence end may refresh again", "a whole number ≥ 0", _integer(0)
    ),
    "cooldown": Field(
        "cooldown", "steps after a sentence end in which another one is not counted", "a whole number ≥ 0", _integer(0)
    ),
    "alpha": Field(
        "α", "exponent of the power mean over query rows (evidence)", "a number in (0, 1]", _number(0, 1, above=True)
    ),
    "gamma": Field("γ", "strength of the key-norm prior: large keys are held back", "a number ≥ 0", _number(0)),
    "beta": Field("β", "decay of the position prior towards new candidates", "a number ≥ 0", _number(0)),
    "power": Field("p", "exponent of the position prior's decay", "a number > 0", _number(0, above=True)),
    "eta": Field("η", "exponent that holds back the newest candidates", "a number ≥ 0", _number(0)),
    "norm_weight": Field("w_norm", "weight of the key-norm prior", "a number ≥ 0", _number(0)),
    "position_weight": Field("w_pos", "weight of the position prior", "a number ≥ 0", _number(0)),
    "lam": Field(
        "λ",
        "share of the prior in the fused score",
        "'auto' (closed form per head, clipped) or a number in [0, 1]",
        _lam,
    ),
    "lam_clip": Field(
        "λ_clip",
        "largest λ the closed form may give",
        "a number in [0, 1] or a pair (one query row, several rows)",
        _lam_clip,
    ),
    "nms_radius": Field("radius", "soft-NMS looks this far to both sides", "a whole number ≥ 0", _integer(0)),
    "nms_strength": Field(
        "α_soft",
        "how strongly soft-NMS holds back a candidate below its neighbourhood's maximum",
        "a number ≥ 0",
        _number(0),
    ),
    "exclusivity": Field(
        "α_cross", "how strongly a candidate is left to the KV head that wants it most", "a number ≥ 0", _number(0)
    ),
    "temperature": Field(
        "τ",
        "temperature of the softmax over KV heads (exclusivity)",
        "a number > 0",
        _number(0, above=True),
        option="tau",
    ),  # --temperature is sampling's, as everywhere else
    "recent_mode": Field(
        "recent mode",
        "'sliding' as in the paper; 'pinned': the window's start waits for the next refresh, so nothing falls into a hole",
        "sliding | pinned",
        _choice("sliding", "pinned"),
    ),
    "prefill_window": Field(
        "W",
        "query rows (prompt's end and the first step) that make the first selection",
        "a whole number ≥ 1",
        _integer(1),
    ),
    "layer_groups": Field(
        "layer groups", "layers refresh in turn, one group a slow step", "a whole number ≥ 1", _integer(1)
    ),
    "rectify": Field(
        "rectify",
        "at a slow step recompute, under dense attention, the keys and values that fast steps made since the last one",
        "true | false",
        _flag,
    ),
}
