"""How methods are told apart wherever they are drawn, in figures and panels alike: family, name, colour and marker of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sfi_lab.methods.table import METHODS

# by what makes them alike; methods that aren't named come after them, as "others"
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Slow-fast": ("sfi", "sfi_pinned", "sfi_rectified"),
        "Top-K reused": ("interval", "drift"),
        "Chosen once, at the prompt's end": ("snapkv", "pyramidkv", "knorm"),
        "Dropped while decoding": ("streaming", "tova", "h2o"),
        "Chosen anew at every step": ("quest", "oracle"),
    }
)
OTHERS = "Others"
INK = -1  # dense has no colour of the series: it is drawn in the text's
_MARKERS = {"sfi": "o", "sfi_pinned": "s", "sfi_rectified": "D", "interval": "^", "drift": "v", "snapkv": "P", "pyramidkv": "^",
            "knorm": "X", "streaming": "<", "tova": ">", "h2o": "d", "quest": "h", "oracle": "*"}  # fmt: skip
_MORE_MARKERS = ("o", "s", "^", "D", "v", "P")  # of methods that aren't named above
_COLORS, _OTHER_COLORS = (0, 1, 2, 4), (3, 5)  # of the six of the series; within a family these are furthest apart


@dataclass(frozen=True, slots=True)
class Mark:
    """What sets a method apart: colour and marker together are its own, colour alone within its family.

    series: number of its colour in the series of six, `INK` for dense; marker: matplotlib's letter; variant: 0, and for
    further parameters of the same method 1, 2, …, each with dashes of its own.
    """

    name: str
    family: str
    series: int
    marker: str
    variant: int


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


def marks(labels: Sequence[str]) -> dict[str, Mark]:
    """A mark for every label, in `ordered`'s order. Variants of one method share colour and marker."""
    found: dict[str, Mark] = {}
    for label in ordered(labels):
        kin = FAMILIES.get(family(label)) or [
            *dict.fromkeys(base(x) for x in ordered(labels) if family(x) == OTHERS and base(x) != "dense")
        ]
        place = kin.index(base(label)) if base(label) in kin else 0
        colors = _OTHER_COLORS if family(label) == OTHERS else _COLORS
        series = INK if base(label) == "dense" else colors[place % len(colors)]
        marker = _MARKERS.get(base(label), _MORE_MARKERS[place % len(_MORE_MARKERS)])
        variant = sum(base(other) == base(label) for other in found)
        found[label] = Mark(title(label), family(label), series, marker, variant)
    return found
