"""Ordinary decoding, the method that all others are held against."""

from __future__ import annotations

from dataclasses import dataclass

from sfi_lab.methods.method import Method
from sfi_lab.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Dense(Method):
    """Every step attends to the whole prefix (Vaswani et al., arXiv 1706.03762); a budget changes nothing."""

    name = "dense"
    title = "Dense"
    paper = "1706.03762"

    def settings(self, base: Settings) -> Settings:
        return base.with_(**{f: getattr(Settings.dense(), f) for f in ("k", "t_max", "trigger")})
