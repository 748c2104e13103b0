"""Figures and tables in a paper's form, made from traces and results with matplotlib: vector files, the same bytes each time.

| name | what |
|---|---|
| `show(name, traces, results)` | one of them in a notebook cell |
| `make(Material.gather(traces, results), out)` | all of them into a folder, with captions and a manifest |
| `NAMES` | their names, one module each (`registry.py`) |
| `Missing` | raised where a figure's data isn't there; names the command that makes it |
"""

from sfi_lab.figures.make import Report, make
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.picture import Picture, show
from sfi_lab.figures.registry import NAMES
from sfi_lab.figures.table import Table

__all__ = ["NAMES", "Material", "Missing", "Picture", "Report", "Table", "make", "show"]
