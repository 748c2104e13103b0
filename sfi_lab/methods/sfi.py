"""Slow-Fast Inference as the paper has it, and the two variants that go beyond it."""

from __future__ import annotations

from dataclasses import dataclass

from sfi_lab.methods.method import Method
from sfi_lab.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SlowFast(Method):
    """Slow-Fast Inference under the settings as they are given (arXiv 2603.12038)."""

    name = "sfi"
    title = "SFI"
    paper = "2603.12038"


@dataclass(frozen=True, kw_only=True)
class PinnedSlowFast(Method):
    """SFI whose recent window keeps its start until the next refresh, so that no position falls between it and the selection.

    Goes beyond the paper; fast steps read up to the fast steps since the last refresh more than the budget.
    """

    name = "sfi_pinned"
    title = "SFI, pinned window"
    paper = ""

    def settings(self, base: Settings) -> Settings:
        return super().settings(base).with_(recent_mode="pinned")


@dataclass(frozen=True, kw_only=True)
class RectifiedSlowFast(Method):
    """SFI whose slow steps recompute, under dense attention, the keys and values that fast steps made since the last one.

    Goes beyond the paper (ReSA does it for fixed intervals, arXiv 2506.04108); after every slow step the cache is what a
    dense prefill of the same tokens makes.
    """

    name = "sfi_rectified"
    title = "SFI, rectified"
    paper = ""

    def settings(self, base: Settings) -> Settings:
        return super().settings(base).with_(rectify=True)
