"""Methods: quality against the share of keys read, a point a method and budget, and the prompts behind a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import polars as pl
import traitlets as T

from sfi_lab.errors import SfiError
from sfi_lab.methods.families import base, title

from . import columns
from .assets import module, style
from .methods_points import ALL, NUMBERS, QUALITIES, by_loss, group_title, points, read_results, wire
from .methods_twin import methods_figure
from .picture import Pictured

ROWS, LETTERS = 200, 80  # prompts listed at most, and how much of their text


class MethodsPanel(Pictured, anywidget.AnyWidget):
    """What methods answer, and how far from dense they are, against the share of keys that they read.

    `MethodsPanel("data/results/methods")`, or frames of `sfi_lab.evaluate`: `MethodsPanel(summary, samples)`, or
    `MethodsPanel({"summary": …, "samples": …})`. Without samples no prompts are listed below a point.

    quality: "score", "kl" or "perplexity" (over dense's). group: "all", or a kind of tasks; length: in tokens, 0 for all.
    only: labels of the methods that are shown, [] for every one. selected: [label, budget] whose prompts are listed, or [].
    worst: that list as the browser has it, `failing()` is the whole of it.

    Raises SfiError for results that aren't an evaluation's and for choices it doesn't hold.
    """

    _esm, _css = module("methods_panel.mjs"), style()
    height = T.Int(340).tag(sync=True)  # CSS pixels
    points = T.Dict().tag(sync=True)
    quality = T.Unicode("score").tag(sync=True)
    group = T.Unicode().tag(sync=True)
    length = T.Int(0).tag(sync=True)
    only = T.List(T.Unicode()).tag(sync=True)
    selected = T.List().tag(sync=True)
    worst = T.Dict().tag(sync=True)

    hub = None  # no trace, so nothing is shared with other panels

    def __init__(
        self,
        results: str | Path | pl.DataFrame | Mapping[str, pl.DataFrame],
        samples: pl.DataFrame | None = None,
        **traits: Any,
    ) -> None:
        summary, self._samples = read_results(results, samples)
        self.frame = points(summary)
        arms = self.frame.filter(pl.col("budget").is_not_null())
        if not arms.height:
            raise SfiError("the evaluation holds no method at a budget beside dense; name one with --methods")
        self._arms = set(arms.select("method", "budget").iter_rows())
        groups = self.frame["group"].unique(maintain_order=True).to_list()
        group = traits.pop("group", ALL if ALL in groups else groups[0])
        lengths = self._lengths(group)
        start = {"group": group, "length": 0 if 0 in lengths else lengths[0] if lengths else 0}
        quality = traits.pop("quality", None) or (self._measured(group) or ["score"])[0]
        super().__init__(points=wire(self.frame), **(start | {"quality": quality} | traits))
        self.observe(self._fit, "group")
        self.observe(self._list, ["group", "length", "quality", "selected"])
        self.observe(self._stale)
        self._list()

    # what a person chooses -------------------------------------------------------------------------------------------

    @T.validate("quality")
    def _known_quality(self, proposal: dict[str, Any]) -> str:
        return _one_of("quality", proposal["value"], list(QUALITIES))

    @T.validate("group")
    def _known_group(self, proposal: dict[str, Any]) -> str:
        return _one_of("group", proposal["value"], self.frame["group"].unique(maintain_order=True).to_list())

    @T.validate("length")
    def _known_length(self, proposal: dict[str, Any]) -> int:
        return _one_of("length", proposal["value"], self.frame["length"].unique().sort().to_list())

    @T.validate("only")
    def _known_methods(self, proposal: dict[str, Any]) -> list[str]:
        labels = [m["label"] for m in self.points["methods"]]
        for label in proposal["value"]:
            _one_of("method", label, labels)
        return [label for label in labels if label in proposal["value"]]

    @T.validate("selected")
    def _known_arm(self, proposal: dict[str, Any]) -> list[Any]:
        chosen = list(proposal["value"])
        if chosen and (len(chosen) != 2 or tuple(chosen) not in self._arms):
            methods = ", ".join(dict.fromkeys(m for m, _ in sorted(self._arms)))
            budgets = ", ".join(map(str, sorted({b for _, b in self._arms})))
            raise SfiError(f"selected = {chosen} is not there; allowed: [method, budget] of {methods} and {budgets}")
        return chosen

    def _fit(self, _change: Any) -> None:
        """A group that lacks the chosen length or quality is shown by one that it has."""
        if self.length not in (lengths := self._lengths(self.group)):
            self.length = 0 if 0 in lengths else lengths[0]
        if self.quality not in (measured := self._measured(self.group)) and measured:
            self.quality = measured[0]

    def _lengths(self, group: str) -> list[int]:
        return self.frame.filter(pl.col("group") == group)["length"].unique().sort().to_list()

    def _measured(self, group: str) -> list[str]:
        """Qualities that some method has in a group."""
        mine = self.frame.filter((pl.col("group") == group) & pl.col("budget").is_not_null())
        return [quality for quality in QUALITIES if mine[quality].null_count() < mine.height]

    # what is shown ---------------------------------------------------------------------------------------------------

    def shown(self) -> pl.DataFrame:
        """Rows of `frame` under the current choices, dense among them, ascending in keys read."""
        rows = self.frame.filter((pl.col("group") == self.group) & (pl.col("length") == self.length))
        if self.only:
            rows = rows.filter(pl.col("method").is_in([*self.only, "dense"]))
        return rows.sort("method", "read")

    def failing(self) -> pl.DataFrame:
        """Prompts of the selected point with dense's run of each, what lost most to dense first; SfiError without one."""
        if not self.selected:
            raise SfiError("no point is selected; choose one, e.g. panel.selected = ['sfi', 256]")
        if self._samples is None:
            raise SfiError("the evaluation came without samples, so there are no prompts to list")
        return by_loss(self._samples, self.group, self.length, *self.selected, self.quality)

    def _list(self, _change: Any = None) -> None:
        of = [*self.selected, self.group, self.length, self.quality]
        if not self.selected:
            self.worst = {}
            return
        if self._samples is None:
            self.worst = {"of": of, "rows": [], "total": 0, "note": "the evaluation came without samples"}
            return
        found = self.failing()
        first = found.head(ROWS).select(
            "task",
            pl.col("score", "dense_score", "kl", "ratio").round(4),
            pl.col("text", "dense_text").str.head(LETTERS),
        )
        losing = (found["loss"] > (1e-6 if self.quality != "score" else 0)).sum()
        self.worst = {"of": of, "rows": [list(r) for r in first.iter_rows()], "total": found.height, "losing": losing}

    def to_figure(self) -> Any:
        """The same points as a matplotlib figure."""
        return methods_figure(self)

    def to_html(self, path: str | Path) -> Path:
        """One HTML file without a kernel: choices, hover and legend work; the list is the one that is open now."""
        from .export import to_html

        return to_html([self], path, "Methods", repr(self))

    def __repr__(self) -> str:
        rows = self.shown()
        arms = rows.filter(pl.col("budget").is_not_null())
        dense = rows.filter(pl.col("method") == "dense")[self.quality].to_list()
        sizes = ", ".join(map(str, sorted({b for _, b in self._arms})))
        low, high = arms[self.quality].min(), arms[self.quality].max()
        facts = [
            f"{counted(arms['method'].to_list())} at {sizes}", f"{group_title(self.group)}, {self.length_title}",
            f"{rows['n'].max() or 0} prompts",
            f"{QUALITIES[self.quality]} " + ("not measured" if low is None else f"{low:.3f} to {high:.3f}"),
        ]  # fmt: skip
        if self.quality == "score" and dense and dense[0] is not None:
            facts.append(f"dense {dense[0]:.3f}")
        if self.selected:
            facts.append(f"{title(self.selected[0])} at {self.selected[1]}: {self.worst.get('losing', 0)} prompts lose")
        numbers = rows.select(pl.col(NUMBERS).cast(pl.Float64).fill_null(-1.0)).to_numpy()
        return f"MethodsPanel({'; '.join(facts)}; sha {columns.digest(numbers)})"

    @property
    def length_title(self) -> str:
        """The chosen length in words."""
        return f"{self.length:,} tokens" if self.length else "all lengths"


def counted(labels: Sequence[str]) -> str:
    """How many methods these labels are, dense not among them: "13 methods beside dense (14 with variants)"."""
    arms, methods = len(set(labels)), len({base(label) for label in labels})
    return f"{methods} method{'' if methods == 1 else 's'} beside dense" + (
        f" ({arms} with variants)" if arms > methods else ""
    )


def _one_of(name: str, value: Any, allowed: list[Any]) -> Any:
    if value not in allowed:
        raise SfiError(f"{name} = {value!r} is not there; allowed: {', '.join(map(str, allowed))}")
    return value
