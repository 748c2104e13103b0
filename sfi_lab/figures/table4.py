"""Table 4 as measured here: methods by kind of task at each budget, against dense on the same prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sfi_lab.figures import published
from sfi_lab.figures.material import Material, Missing
from sfi_lab.figures.method_rows import COMMAND, NEEDS, budgets, ordered, summary_of, title
from sfi_lab.figures.table import Table

TITLE = "Methods at equal budgets, by kind of task (the paper's table 4)"
__all__ = ["COMMAND", "NEEDS", "TITLE", "table"]

_ALL, _NOTHING = "all", "no difference found"
_ENOUGH = 6  # prompts: with fewer, all differing the same way, a two-sided sign-flip test still gives 2 / 2⁵ > 0.05


def table(material: Material) -> Table:
    found = summary_of(material)
    rows = found.frame.filter(pl.col("length") == 0)
    cells = {(r["group"], r["method"], r["budget"]): r for r in rows.iter_rows(named=True)}
    answered = rows.filter(pl.col("score").is_not_null())["group"].unique(maintain_order=True).to_list()
    texts = [g for g in rows["group"].unique(maintain_order=True).to_list() if g not in answered]
    if not rows.filter(pl.col("method") != "dense").height:
        raise Missing("the evaluation holds dense alone", COMMAND)
    answered.sort(key=lambda group: group != _ALL)  # that over all kinds comes first, the others stay in order
    lines = [_line(cells, "dense", None, answered, texts)]
    for budget in budgets(rows):
        lines.append(())
        for method in ordered(rows.filter(pl.col("budget") == budget)["method"].to_list()):
            lines.append(_line(cells, method, budget, answered, texts))
    lines.append(())
    empty = (None,) * (len(answered) + len(texts))
    for method in sorted(published.LONGBENCH_V2, key=ordered(published.LONGBENCH_V2).index):
        kept, printed = published.LONGBENCH_V2[method]
        lines.append((f"{title(method)}, published", None, kept, *empty, f"{printed:.2f}"))
    head = (
        "method", "budget", "keys read", *("all kinds" if g == _ALL else _broken(g) for g in answered), *(_broken(g) + "\nKL" for g in texts),
        "published:\nLongBench-V2",
    )  # fmt: skip
    return Table(
        head, tuple(lines), _caption(cells, answered, texts, str(found.study.get("model", ""))), "methods", fitted=True
    )


def _line(
    cells: Mapping, method: str, budget: int | None, answered: list[str], texts: list[str]
) -> tuple[str | None, ...]:
    own = [cells[g, method, budget] for g in (*answered, *texts) if (g, method, budget) in cells]
    read, looked = own[0]["read_share"], own[0]["scored_share"]
    keys = read if read is None else f"{read:.0%}" + (f"\n+ {looked:.0%} looked at" if looked else "")
    return (
        title(method), None if budget is None else str(budget), keys,
        *(_score(cells.get((g, method, budget)), g == _ALL or len(answered) == 1) for g in answered),
        *(_kl(cells.get((g, method, budget))) for g in texts), None,
    )  # fmt: skip


def _score(row: Mapping[str, Any] | None, whole: bool) -> str | None:
    """ "62, worse" and the difference to dense in points with its interval. whole: one decimal, and the word in any case."""
    if row is None or row["score"] is None:
        return None
    form = ".1f" if whole else ".0f"
    word = row["verdict"] if row["difference"] is not None and (whole or row["verdict"] != _NOTHING) else ""
    text = f"{100 * row['score']:{form}}" + (f", {word}" if word else "")
    if row["difference"] is None:
        return text
    numbers = [
        f"{100 * row[name]:+{form}}"
        for name in ("difference", "difference_low", "difference_high")
        if row[name] is not None
    ]
    return text + "\n" + _minus(numbers[0] + (f" [{numbers[1]}, {numbers[2]}]" if len(numbers) == 3 else ""))


def _kl(row: Mapping[str, Any] | None) -> str | None:
    if row is None or row["kl"] is None:
        return None
    known = row["kl_low"] is not None and row["method"] != "dense"
    return f"{row['kl']:.4f}" + (f"\n[{row['kl_low']:.4f}, {row['kl_high']:.4f}]" if known else "")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _broken(group: str) -> str:
    return group.replace(":", ":\n").replace("_", " ")


def _caption(cells: Mapping, answered: list[str], texts: list[str], model: str) -> str:
    n = {group: cells[group, "dense", None]["n"] for group in (*answered, *texts)}
    prompts = ", ".join(f"{group.replace('_', ' ')} {count}" for group, count in n.items() if group != _ALL)
    few = [group.replace("_", " ") for group in answered if n[group] < _ENOUGH]
    silent = (
        f" Of {', '.join(few)} there are too few prompts for the test to find any difference, however large."
        if few
        else ""
    )
    distance = " KL: nats a step to dense along its own tokens, on texts." if texts else ""
    return (
        f"Scores in points of a hundred{', ' + model if model else ''}; after them the difference to dense on the same prompts with its 95 % paired bootstrap interval. Worse or "
        "better where the interval leaves out 0 and a sign-flip test gives p ≤ 0.05, uncorrected for many comparisons; a kind without a word: no difference found, which "
        f"is not the same as none.{silent} Budget: positions a step reads per layer and KV head; keys read: share of those available, slow steps included.{distance} Prompts: "
        f"{prompts}. The rows at the end are published ones ({published.SOURCE}, table 4): LongBench-V2 with Qwen3-4B - another model, other tasks and budgets, so that only "
        "their order can be set beside ours."
    )
