"""Table 6 as measured here: the clip of λ."""

from __future__ import annotations

from sfi_lab.figures import published
from sfi_lab.figures.material import Material
from sfi_lab.figures.selector_table import NOT_ALIKE, RowOf, selector_table
from sfi_lab.figures.table import Table

TITLE = "λ_clip: mass kept and output error (the paper's table 6)"
NEEDS = "a trace recorded with '+qk'"


def table(material: Material) -> Table:
    rows = [
        RowOf(f"{clip:g}", lambda s, clip=clip: s.with_(lam="auto", lam_clip=clip), f"{score:.2f}")
        for clip, score in published.LAMBDA_CLIP.items()
    ]
    rows.insert(0, RowOf("0 (no prior)", lambda s: s.with_(lam=0.0), None))
    rows.append(RowOf("1 (no clip)", lambda s: s.with_(lam="auto", lam_clip=1.0), None))
    return selector_table(material, "λ_clip", rows, "lambda-clip", "λ by the closed form, clipped. " + NOT_ALIKE)
