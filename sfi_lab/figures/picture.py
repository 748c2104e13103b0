"""A figure or table in a notebook cell: drawn as PNG with a palette, its text the caption, so that nbval compares facts."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image  # comes with matplotlib

from sfi_lab.figures import style
from sfi_lab.figures.make import checked_names
from sfi_lab.figures.material import Material
from sfi_lab.figures.registry import is_table, recipe
from sfi_lab.figures.table import Table
from sfi_lab.small_png import small_png
from sfi_lab.trace import Trace

SCREEN = 140  # dots an inch in a notebook
_POINTS = 96  # CSS pixels an inch


class Picture:
    """What `show` returns. found: what was drawn (for asserts); figure: matplotlib's Figure; caption: a paragraph."""

    def __init__(self, name: str, found: Any, figure: Any, caption: str) -> None:
        self.name, self.found, self.figure, self.caption = name, found, figure, caption

    def __repr__(self) -> str:
        width, height = self.figure.get_size_inches()
        return f"{self.name} ({width:.1f} × {height:.1f} in): {self.caption}"

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        whole = Image.open(io.BytesIO(style.rendered(self.figure, "png", SCREEN)))
        return small_png(whole.convert("RGB")), {"width": round(self.figure.get_size_inches()[0] * _POINTS * 1.25)}


class Listing:
    """A table in a notebook cell: found is the `Table`."""

    def __init__(self, found: Table) -> None:
        self.found = found

    def __repr__(self) -> str:
        return self.found.markdown()

    def _repr_markdown_(self) -> str:
        return self.found.markdown()


def show(
    name: str,
    traces: Trace | str | Path | Iterable[Trace | str | Path] | Material = (),
    results: str | Path | Iterable[str | Path] = (),
) -> Picture | Listing:
    """One figure or table of these traces and results folders, for a notebook.

    Raises SfiError for an unknown name, and Missing (an SfiError) where its data isn't there, with the command that makes it.
    """
    (name,) = checked_names([name])
    material = traces if isinstance(traces, Material) else Material.gather(_listed(traces), _listed(results))
    module = recipe(name)
    if is_table(module):
        return Listing(module.table(material.view()))
    found = module.data(material.view())
    with style.styled():
        figure = module.draw(found)
    return Picture(name, found, figure, module.caption(found))


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, (Trace, str, Path)) else list(given)
