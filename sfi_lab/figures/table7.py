"""Table 7 as measured here: cross-head exclusivity and soft-NMS."""

from __future__ import annotations

from sfi_lab.figures import published
from sfi_lab.figures.material import Material
from sfi_lab.figures.selector_table import NOT_ALIKE, RowOf, selector_table
from sfi_lab.figures.table import Table

TITLE = "α_cross and α_soft: mass kept and output error (the paper's table 7)"
NEEDS = "a trace recorded with '+qk'"


def table(material: Material) -> Table:
    def row(cross: float, soft: float, score: float | None) -> RowOf:
        return RowOf(
            f"{cross:g}, {soft:g}", lambda s: s.with_(exclusivity=cross, nms_strength=soft), score and f"{score:.2f}"
        )

    rows = [row(cross, 0.0, score) for cross, score in published.EXCLUSIVITY.items()]
    rows += [row(0.35, soft, score) for soft, score in published.NMS.items()]
    rows += [row(0.85, 1.0, None)]
    return selector_table(
        material,
        "α_cross, α_soft",
        rows,
        "exclusivity-nms",
        "The last row has the released code's values. " + NOT_ALIKE,
    )
