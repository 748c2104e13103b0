"""Plain Top-K reused for a while: the controls that tell what SFI's trigger and selector add."""

from __future__ import annotations

from dataclasses import dataclass

from sfi_lab.methods.method import Method
from sfi_lab.settings import Settings

_PLAIN_TOP_K = {"lam": 0.0, "nms_strength": 0.0, "exclusivity": 0.0}


@dataclass(frozen=True, kw_only=True)
class IntervalReuse(Method):
    """The Top-K of a dense step's attention, reused for a fixed number of steps.

    LServe (arXiv 2502.14866) reuses a page selection every 4 steps, ReSA (arXiv 2506.04108) goes dense every 32. Here a
    step in `every` is dense and its evidence (the power mean with the settings' α) picks the Top-K without prior, NMS or
    exclusivity.
    """

    name = "interval"
    title = "Fixed-interval reuse"
    paper = "2502.14866"

    every: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole("every", 1)

    def settings(self, base: Settings) -> Settings:
        return super().settings(base).with_(**_PLAIN_TOP_K, trigger="period", period=self.every, t_max=0)


@dataclass(frozen=True, kw_only=True)
class DriftReuse(Method):
    """The same Top-K, chosen anew when the queries have turned away from those of the last refresh.

    FreeKV (arXiv 2505.13109) and TokenSelect (arXiv 2411.02886) compare each head's query with its last; here one decision
    is made for all layers, from 1 - cosine averaged over layers and query heads, after RoPE.
    """

    name = "drift"
    title = "Query-drift reuse"
    paper = "2411.02886"

    threshold: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_number("threshold", 0, 2)

    def settings(self, base: Settings) -> Settings:
        return super().settings(base).with_(**_PLAIN_TOP_K, trigger="drift", drift_threshold=self.threshold, t_max=0)
