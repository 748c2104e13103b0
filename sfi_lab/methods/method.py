"""What every method is: a name, its paper, its parameters, and the settings or the rule it decodes by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from sfi_lab.errors import SfiError
from sfi_lab.methods.rule import Rule
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec

RECENT_SHARE = 4  # a quarter of a budget is the recent window, where the settings' doesn't fit


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to decode with fewer keys. Subclasses are frozen dataclasses whose fields are the method's parameters.

    budget: positions that a step reads per layer and KV head (mean over the layers), sink and recent among them; None
        takes sink + recent + K of the settings it is used with. Methods with slow steps read more on those; what else a
        method reads beside B is in its docstring, and what it really read in `keys_read`. The settings' K becomes what
        their sink and recent leave of the budget. Where they leave nothing, a method that goes by the settings' windows
        (SFI, `interval`, `drift`) refuses it; those with a rule of their own take any budget from 2 on (`streaming` and
        `oracle`: sink + 2, `quest`: a page).

    A method either changes the settings of the slow-fast decoder (`settings`), or gives a `Rule` of its own (`rule`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]  # arXiv number, "" where there is none
    fixed: ClassVar[tuple[str, ...]] = ("sink", "recent")  # the settings' windows that a budget leaves as they are

    budget: int | None = None

    def __post_init__(self) -> None:
        self.check_whole("budget", 2, optional=True)

    def settings(self, base: Settings) -> Settings:
        """The settings this method runs with: sink + recent + K is the budget.

        K takes what the windows leave. Where they leave nothing, a window that isn't `fixed` gives way: recent becomes a
        quarter of the budget, as `sfi-lab evaluate` has it, and sink what is left.

        Raises SfiError for a budget that doesn't hold the fixed windows and, of recent (where it isn't fixed) and K, a
        position each.
        """
        if self.budget is None:
            return base
        sink, recent = base.sink, base.recent
        held = [getattr(base, window) for window in self.fixed]
        beside = 1 if "recent" in self.fixed else 2
        if self.budget < sum(held) + beside:
            windows = " and ".join(f"{n} {window}" for n, window in zip(held, self.fixed, strict=True))
            raise SfiError(
                f"{self.name}: budget = {self.budget} leaves {'nothing to select' if beside == 1 else 'too little'} beside "
                f"{windows} positions; allowed: a budget above {sum(held) + beside - 1}, or a smaller {self.fixed[-1]}"
            )
        if "sink" not in self.fixed:
            sink = min(sink, self.budget - 2)
        if "recent" not in self.fixed and sink + recent >= self.budget:
            recent = min(max(1, self.budget // RECENT_SHARE), self.budget - sink - 1)
        return base.with_(sink=sink, recent=recent, k=self.budget - sink - recent)

    def rule(self, settings: Settings, spec: ModelSpec) -> Rule | None:
        """A fresh rule for one sequence under `settings` (those that `settings()` returned); None: the slow-fast decoder's own."""
        return None

    @property
    def label(self) -> str:
        """The name with the parameters that differ from their defaults, as `parse_method` reads it: "snapkv:window=16"."""
        changed = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default]
        return ":".join([self.name, *changed])

    # checks of parameters, one clear sentence each ---------------------------------------------------------------------

    def check_whole(self, field: str, least: int, optional: bool = False) -> None:
        """Raises SfiError unless the field is a whole number ≥ least (or None where that is allowed)."""
        value = getattr(self, field)
        if optional and value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._refusal(field, f"a whole number ≥ {least}")

    def check_number(self, field: str, least: float, most: float) -> None:
        """Raises SfiError unless the field is a number in [least, most]."""
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self._refusal(field, f"a number in [{least:g}, {most:g}]")

    def check_choice(self, field: str, allowed: tuple[str, ...]) -> None:
        """Raises SfiError unless the field is one of the words."""
        if getattr(self, field) not in allowed:
            raise self._refusal(field, " | ".join(allowed))

    def _refusal(self, field: str, allowed: str) -> SfiError:
        return SfiError(f"{self.name}: {field} = {getattr(self, field)!r} is not allowed; allowed: {allowed}")


def budget_of(settings: Settings) -> int:
    """Positions that a fast step reads under these settings."""
    return settings.sink + settings.recent + settings.k


def parameters(method: Method) -> dict[str, Any]:
    """The method's parameters by name."""
    return {f.name: getattr(method, f.name) for f in fields(method)}
