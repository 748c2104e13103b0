"""PyramidKV: SnapKV's vote with more positions for the lower layers and fewer for the upper ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfi_lab.methods.method import budget_of
from sfi_lab.methods.snapkv import ObservationWindow, SnapKV
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from sfi_lab.loading import ModelSpec


@dataclass(frozen=True, kw_only=True)
class PyramidKV(SnapKV):
    """SnapKV with a pyramid of budgets (Cai et al., "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information
    Funneling", arXiv 2406.02069).

    Of b = B - w positions beside the window, the top layer chooses b/β, the bottom one 2b - b/β, those between follow a
    straight line; the mean over the layers is b (`layer_budgets`). Score, pooling and window as in SnapKV and with its
    defaults, so that the two differ in their budgets alone; the paper's own runs are window=8, pool=7, pooling=max. Layers
    that keep a window of their own in the model are not counted.

    beta: β ≥ 1, how steep the pyramid is (published: 20); 1 is SnapKV.
    """

    name = "pyramidkv"
    title = "PyramidKV"
    paper = "2406.02069"

    beta: float = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_number("beta", 1, 1e6)

    def rule(self, settings: Settings, spec: ModelSpec) -> PyramidWindow:
        full = [layer for layer, kind in enumerate(spec.layer_kinds) if kind == "full"]
        return PyramidWindow(self, budget_of(settings), full)


class PyramidWindow(ObservationWindow):
    """An observation window whose budget depends on the layer."""

    def __init__(self, method: PyramidKV, budget: int, layers: list[int]) -> None:
        super().__init__(method, budget)
        self._rank = {layer: rank for rank, layer in enumerate(layers)}

    def budget_for(self, layer: int, length: int) -> int:
        if length <= self.budget:
            return length
        budgets = layer_budgets(self.budget, self.prompt_queries, self.method.beta, len(self._rank), length)
        return budgets[self._rank[layer]]


def layer_budgets(budget: int, window: int, beta: float, layers: int, length: int) -> tuple[int, ...]:
    """Positions kept by each of the layers, bottom first; they sum to layers · budget, never rise, and are ≥ window.

    With b = budget - window: top = b/β, bottom = 2b - top, or, where the prompt has not as many, bottom = length - window
    and top = 2b - bottom (as the released code does); a straight line between, fractions rounded up where they are largest.

    budget: mean over the layers, window < budget < length. length: positions of the prompt.
    """
    beside = budget - window
    top = Fraction(beside) / Fraction(beta)
    bottom = min(2 * beside - top, Fraction(length - window))
    top = 2 * beside - bottom
    if layers == 1:
        return (budget,)
    shares = [bottom - (bottom - top) * rank / (layers - 1) for rank in range(layers)]
    whole = [share.numerator // share.denominator for share in shares]
    by_fraction = sorted(range(layers), key=lambda rank: whole[rank] - shares[rank])  # stable: the lower layer first
    for rank in by_fraction[: layers * beside - sum(whole)]:
        whole[rank] += 1
    return tuple(window + share for share in whole)
