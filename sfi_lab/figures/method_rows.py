"""Rows of `sfi-lab evaluate` as figures and tables read them: which table, and each method's name, family, colour and marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfi_lab.figures import style
from sfi_lab.figures.material import Found, Material
from sfi_lab.methods.families import FAMILIES, INK, OTHERS, base, family, marks, ordered, title

__all__ = ["COMMAND", "FAMILIES", "NEEDS", "OTHERS", "SAMPLES", "SUMMARY", "Look", "base", "budgets", "family", "looks", "ordered",
           "samples_of", "summary_of", "title", "two_lines"]  # fmt: skip

NEEDS = "an evaluation of several methods"
COMMAND = (
    "sfi-lab evaluate --methods dense,sfi,streaming,snapkv,quest,oracle --tasks single_needle,multi_key,fact_qa -o DIR"
)

_NOTHING = "no evaluation of methods is there"

SAMPLES = ("task", "kind", "length", "depth", "method", "budget", "score", "read_share", "kl")
SUMMARY = ("group", "length", "method", "budget", "n", "score", "difference", "difference_low", "difference_high", "verdict",
           "read_share", "scored_share", "kl", "kl_low", "kl_high")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """How a method is drawn wherever it appears: colour and marker together are its own."""

    name: str
    color: str
    marker: str
    dashes: object


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A look for every label. Variants of one method share colour and marker and differ in their dashes."""
    return {
        label: Look(
            mark.name,
            style.INK if mark.series == INK else style.SERIES[mark.series],
            mark.marker,
            style.DASHES[mark.variant % len(style.DASHES)],
        )
        for label, mark in marks(labels).items()
    }


def two_lines(name: str, room: int, short: str = "") -> str:
    """A name over a narrow panel: broken near its middle where it has `room` characters or more, else with `short` behind it."""
    words = name.split()
    if len(name) < room or len(words) < 2:
        return name + short
    cut = min(range(1, len(words)), key=lambda i: abs(len(" ".join(words[:i])) - len(name) / 2))
    return " ".join(words[:cut]) + "\n" + " ".join(words[cut:])


def summary_of(material: Material) -> Found:
    """The summary of the evaluation with the most methods and prompts; Missing if there is none."""
    return _largest(material, SUMMARY, pl.col("n").max() if material.files else pl.lit(0))


def samples_of(material: Material, keep: pl.Expr | None = None, task: str = "single_needle") -> Found:
    """The samples of the evaluation with the most methods and prompts, of those with rows that pass `keep`.

    task: what `keep` looks for, in the words of whoever has to run it.
    """
    what = _NOTHING
    if keep is not None:
        tables = material.tables(SAMPLES, _NOTHING, COMMAND)
        there = sorted({kind for table in tables for kind in table.frame["kind"].drop_nulls().unique()})
        what = (
            f"no evaluation of the task {task}, with depths and scores, is there; those there are of {', '.join(there)}"
        )
    return _largest(material, SAMPLES, pl.col("task").n_unique(), keep, what)


def _largest(
    material: Material, columns: Sequence[str], prompts: pl.Expr, keep: pl.Expr | None = None, what: str = _NOTHING
) -> Found:
    found = material.tables(columns, what, COMMAND, keep)
    size = lambda t: t.frame.select(pl.col("method").n_unique(), prompts.alias("n")).row(0)  # noqa: E731
    best = max(found, key=size)  # the first of equal ones
    material.use([best.path])
    return Found(best.frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None)), best.path)


def budgets(frame: pl.DataFrame) -> list[int]:
    """The budgets that were measured, ascending."""
    return frame["budget"].drop_nulls().unique().sort().to_list()
