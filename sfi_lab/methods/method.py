"""What every method is: a name, its paper, its parameters, and the settings or the rule it decodes by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from sfi_lab.errors import SfiError
from sfi_lab.methods.rule import Rule
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to decode with fewer keys. Subclasses are frozen dataclasses whose fields are the method's parameters.

    budget: positions that a step reads per layer and KV head (mean over the layers), sink and recent among them; None
        takes sink + recent + K of the settings it is used with. Methods with slow steps read more on those.

    A method either changes the settings of the slow-fast decoder (`settings`), or gives a `Rule` of its own (`rule`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]  # arXiv number, "" where there is none

    budget: int | None = None

    def __post_init__(self) -> None:
        self.check_whole("budget", 2, optional=True)

    def settings(self, base: Settings) -> Settings:
        """The settings this method runs with; the budget becomes K."""
        if self.budget is None:
            return base
        k = self.budget - base.sink - base.recent
        if k < 1:
            raise SfiError(
                f"{self.name}: budget = {self.budget} leaves nothing to select beside {base.sink} sink and {base.recent} "
                "recent positions; allowed: a larger budget, or a smaller recent"
            )
        return base.with_(k=k)

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
