"""Markdown for people: tables of numbers, and where and how they were measured."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import polars as pl


def table(frame: pl.DataFrame, digits: int = 3, headings: dict[str, str] | None = None) -> str:
    """A Markdown table; floats with `digits` decimals, missing values as a dash."""
    headings = headings or {}
    names = [headings.get(name, name.replace("_", " ")) for name in frame.columns]
    align = ["---:" if dtype.is_numeric() else "---" for dtype in frame.dtypes]
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join(align) + " |"]
    for row in frame.iter_rows():
        lines.append("| " + " | ".join(_cell(value, digits) for value in row) + " |")
    return "\n".join(lines)


def with_interval(name: str = "value", low: str = "low", high: str = "high", digits: int = 3) -> pl.Expr:
    """A column "value [low, high]"; the value alone where there is no interval."""

    def text(row: dict) -> str:
        if row[name] is None:
            return "–"
        value = _cell(row[name], digits)
        return value if row[low] is None else f"{value} [{_cell(row[low], digits)}, {_cell(row[high], digits)}]"

    return pl.struct(name, low, high).map_elements(text, return_dtype=pl.String)


def document(title: str, parts: Sequence[tuple[str, str]], runs: Sequence[tuple[dict, str]]) -> str:
    """A report: sections, then each machine with the commands that ran there. runs: (machine, command) pairs."""
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in parts)
    commands: dict[str, list[str]] = {}
    for machine, command in runs:
        facts = ", ".join(f"{name} {value}" for name, value in machine.items())
        commands.setdefault(facts, []).append(f"    {command}")
    where = "\n\n".join("\n".join([facts, "", *lines]) for facts, lines in commands.items())
    return f"# {title}\n\n{body}\n\n## Where and how\n\n{where}\n"


def command_line() -> str:
    """The command that is running, as one would type it."""
    program = (
        "sfi-lab" if "sfi" in sys.argv[0] or sys.argv[0].endswith("__main__.py") else sys.argv[0].rsplit("/", 1)[-1]
    )
    return " ".join([program, *(shlex.quote(argument) for argument in sys.argv[1:])])


def _cell(value: object, digits: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        tiny = value != 0 and abs(value) < 0.5 * 10.0**-digits
        return f"{value:.1e}" if tiny and digits else f"{value:.{digits}f}"
    return str(value).replace("|", "\\|").replace("\n", "⏎")
