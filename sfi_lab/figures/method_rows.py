"""Rows of `sfi-lab evaluate` as figures and tables read them: which table, and each method's name, family, colour and marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfi_lab.figures import style
from sfi_lab.figures.material import Found, Material
from sfi_lab.methods import METHODS

NEEDS = "an evaluation of several methods"
COMMAND = (
    "sfi-lab evaluate --methods dense,sfi,streaming,snapkv,quest,oracle --tasks single_needle,multi_key,fact_qa -o DIR"
)

SAMPLES = ("task", "kind", "length", "depth", "method", "budget", "score", "read_share", "kl")
SUMMARY = ("group", "length", "method", "budget", "n", "score", "difference", "difference_low", "difference_high", "verdict",
           "read_share", "scored_share", "kl", "kl_low", "kl_high")  # fmt: skip

# by what makes them alike; methods that aren't named come after them, as "others"
FAMILIES = {
    "Slow-fast": ("sfi", "sfi_pinned", "sfi_rectified"),
    "Top-K reused": ("interval", "drift"),
    "Chosen once, at the prompt's end": ("snapkv", "pyramidkv", "knorm"),
    "Dropped while decoding": ("streaming", "tova", "h2o"),
    "Chosen anew at every step": ("quest", "oracle"),
}
OTHERS = "Others"
_MARKERS = {"sfi": "o", "sfi_pinned": "s", "sfi_rectified": "D", "interval": "^", "drift": "v", "snapkv": "P", "pyramidkv": "^",
            "knorm": "X", "streaming": "<", "tova": ">", "h2o": "d", "quest": "h", "oracle": "*"}  # fmt: skip
_COLORS, _OTHER_COLORS = (0, 1, 2, 4), (3, 5)  # of style.SERIES; within a family these are furthest apart


@dataclass(frozen=True, slots=True)
class Look:
    """How a method is drawn wherever it appears: colour and marker together are its own."""

    name: str
    color: str
    marker: str
    dashes: object


def base(label: str) -> str:
    """ "snapkv:window=16" -> "snapkv"."""
    return label.partition(":")[0]


def title(label: str) -> str:
    """What a reader calls it: "SnapKV", with the parameters that differ from their defaults in brackets."""
    name, _, changed = label.partition(":")
    known = METHODS[name].title if name in METHODS else name
    return known + (f" ({changed.replace(':', ', ').replace('=', ' = ')})" if changed else "")


def family(label: str) -> str:
    """The family's name; `OTHERS` for a method that isn't in `FAMILIES`."""
    return next((name for name, members in FAMILIES.items() if base(label) in members), OTHERS)


def ordered(labels: Sequence[str]) -> list[str]:
    """Each label once: dense, then by family, then as the methods' own table has them."""
    families, names = [*FAMILIES, OTHERS], ["dense", *(m for members in FAMILIES.values() for m in members), *METHODS]
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    key = lambda x: (base(x) != "dense", families.index(family(x)), place.get(base(x), len(names)), x)  # noqa: E731
    return sorted(set(labels), key=key)


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A look for every label. Variants of one method share colour and marker and differ in their dashes."""
    found: dict[str, Look] = {}
    for label in ordered(labels):
        kin = FAMILIES.get(family(label)) or [
            *dict.fromkeys(base(x) for x in ordered(labels) if family(x) == OTHERS and base(x) != "dense")
        ]
        place = kin.index(base(label)) if base(label) in kin else 0
        colors = _OTHER_COLORS if family(label) == OTHERS else _COLORS
        color = style.INK if base(label) == "dense" else style.SERIES[colors[place % len(colors)]]
        marker = _MARKERS.get(base(label), style.MARKERS[place % len(style.MARKERS)])
        variant = sum(base(other) == base(label) for other in found)
        found[label] = Look(title(label), color, marker, style.DASHES[variant % len(style.DASHES)])
    return found


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


def samples_of(material: Material, keep: pl.Expr | None = None) -> Found:
    """The samples of the evaluation with the most methods and prompts, of those with rows that pass `keep`."""
    return _largest(material, SAMPLES, pl.col("task").n_unique(), keep)


def _largest(material: Material, columns: Sequence[str], prompts: pl.Expr, keep: pl.Expr | None = None) -> Found:
    found = material.tables(columns, "no evaluation of methods is there", COMMAND, keep)
    size = lambda t: t.frame.select(pl.col("method").n_unique(), prompts.alias("n")).row(0)  # noqa: E731
    best = max(found, key=size)  # the first of equal ones
    material.use([best.path])
    return Found(best.frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None)), best.path)


def budgets(frame: pl.DataFrame) -> list[int]:
    """The budgets that were measured, ascending."""
    return frame["budget"].drop_nulls().unique().sort().to_list()
