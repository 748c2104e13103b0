"""What is compared: every method at every budget, and dense once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfi_lab.errors import SfiError
from sfi_lab.methods import Method, parse_method
from sfi_lab.methods.dense import Dense
from sfi_lab.methods.method import RECENT_SHARE
from sfi_lab.settings import Settings


@dataclass(frozen=True, slots=True)
class Arm:
    """One method at one budget. budget None: dense, to which a budget means nothing."""

    method: Method
    budget: int | None
    settings: Settings

    @property
    def name(self) -> str:
        return self.method.label if self.budget is None else f"{self.method.label} at {self.budget}"


def make_arms(
    methods: str | Sequence[str | Method], budgets: Sequence[int], base: Settings, recent: int | None = None
) -> list[Arm]:
    """Dense first, then every method at every budget; a budget is sink + recent + K positions per layer and KV head.

    methods: names with parameters, separated by commas, or a list. base: all settings but recent and K. recent: the
    recent window; None: a quarter of each budget.

    Raises SfiError for an unknown method, a budget that leaves nothing to select, or nothing to compare.
    """
    names = [part.strip() for part in methods.split(",") if part.strip()] if isinstance(methods, str) else methods
    chosen = list(dict.fromkeys(parse_method(name) for name in names))
    others = [method for method in chosen if not isinstance(method, Dense)]
    if not others:
        raise SfiError("dense alone leaves nothing to compare; name another method")
    if fixed := [method.label for method in others if method.budget is not None]:
        raise SfiError(f"{fixed[0]}: the evaluation sets the budget itself; leave budget= out and use --budget")
    arms = [Arm(Dense(), None, Dense().settings(base))]
    for budget in dict.fromkeys(budgets):
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
            raise SfiError(f"budget = {budget!r} is not allowed; allowed: whole numbers ≥ 1")
        window = recent if recent is not None else max(1, budget // RECENT_SHARE)
        k = budget - base.sink - window
        if k < 1:
            raise SfiError(
                f"budget = {budget} leaves nothing to select beside {base.sink} sink and {window} recent positions"
            )
        settings = base.with_(recent=window, k=k)
        arms += [Arm(method, budget, settings) for method in others]
    return arms
