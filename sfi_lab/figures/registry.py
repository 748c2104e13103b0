"""Every figure and table by name: one module each, one line each.

A figure's module has TITLE, NEEDS (the data it wants, in words), `data(material)`, `draw(data) -> Figure` and
`caption(data) -> str`; a table's has TITLE, NEEDS and `table(material) -> Table`. `data` and `table` raise Missing where
what they need isn't there. They are told apart by `draw`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = (
    "maps",
    "gain",
    "models",
    "pipeline",
    "throughput",
    "stability",
    "controls",
    "ablation",
    "pareto",
    "methods_pareto",
    "needle_map",
    "anatomy",
    "lambda_heads",
    "nms",
    "step_times",
    "proxy",
    "table1",
    "table4",
    "table6",
    "table7",
)


def recipe(name: str) -> ModuleType:
    """The module of a figure or table, imported when it is asked for."""
    return importlib.import_module(f"sfi_lab.figures.{name}")


def is_table(module: ModuleType) -> bool:
    """True for tables, False for figures."""
    return not hasattr(module, "draw")
