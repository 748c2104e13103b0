"""Table of contents of the methods: name to class, and `parse_method`, which reads "snapkv:window=16:pool=7"."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from sfi_lab.errors import SfiError
from sfi_lab.methods.dense import Dense
from sfi_lab.methods.h2o import H2O
from sfi_lab.methods.knorm import KNorm
from sfi_lab.methods.method import Method
from sfi_lab.methods.oracle import OracleTopK
from sfi_lab.methods.pyramidkv import PyramidKV
from sfi_lab.methods.quest import Quest
from sfi_lab.methods.reuse import DriftReuse, IntervalReuse
from sfi_lab.methods.sfi import PinnedSlowFast, RectifiedSlowFast, SlowFast
from sfi_lab.methods.snapkv import SnapKV
from sfi_lab.methods.streaming import StreamingLLM
from sfi_lab.methods.tova import TOVA

METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {
        method.name: method
        for method in (
            Dense,
            SlowFast,
            PinnedSlowFast,
            RectifiedSlowFast,
            IntervalReuse,
            DriftReuse,
            StreamingLLM,
            SnapKV,
            PyramidKV,
            TOVA,
            H2O,
            KNorm,
            Quest,
            OracleTopK,
        )
    }
)


def parse_method(text: str | Method) -> Method:
    """A method from its name and parameters, "name" or "name:parameter=value:…"; a Method is returned as it is.

    Raises SfiError for an unknown name or parameter, one that is given twice, or a value that is not allowed.
    """
    if isinstance(text, Method):
        return text
    name, *given = str(text).split(":")
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise SfiError(f"unknown method {name!r}{hint}; allowed: {', '.join(METHODS)}")
    allowed = [f.name for f in fields(METHODS[name])]
    values: dict[str, Any] = {}
    for part in given:
        parameter, equals, value = part.partition("=")
        if parameter not in allowed or not equals:
            raise SfiError(f"{name} has no parameter {part!r}; allowed: {', '.join(f'{a}=…' for a in allowed)}")
        if parameter in values:
            raise SfiError(f"{name}: {parameter} is given twice in {text!r}; allowed: once")
        values[parameter] = _value(value)
    return METHODS[name](**values)


def _value(text: str) -> Any:
    """A number where the text is one, else the word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
