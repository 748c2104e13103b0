"""Tuning as a study: the proxy of every setting on each prompt, then the best few of all prompts run again on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sfi_lab.settings import Settings
from sfi_lab.studies.reference import Reference, prompt_row
from sfi_lab.studies.report import table
from sfi_lab.studies.tune import Target, choose, combine, conclude, grid_around, rerun, sweep

if TYPE_CHECKING:
    from sfi_lab.studies.store import Store


def run_prompt(
    reference: Reference, base: Settings, target: str = "kept>=0.95", confirm: int = 4
) -> dict[str, pl.DataFrame]:
    """The proxy of every setting on one prompt's dense run."""
    Target.parse(target)
    return {"grid": sweep(reference.trace, grid_around(base)), "prompts": pl.DataFrame([prompt_row(reference)])}


def confirm_prompt(
    reference: Reference, base: Settings, store: Store, names: list[str], target: str = "kept>=0.95", confirm: int = 4
) -> dict[str, pl.DataFrame]:
    """The best few of all prompts together, run again on one of them."""
    finalists = choose(combine(store.frame("grid", names)), Target.parse(target), confirm)
    tried = grid_around(base)
    return {"confirmed": rerun(reference.prefix, reference.trace, [tried[i] for i in finalists], finalists)}


def finish(store: Store, names: list[str]) -> tuple[dict[str, pl.DataFrame], list[tuple[str, str]], dict]:
    """Tables, report sections and the JSON summary."""
    base = Settings.from_dict(store.config["settings"])
    target = Target.parse(store.config["options"].get("target", "kept>=0.95"))
    tuned = conclude(
        combine(store.frame("grid", names)),
        store.frame("confirmed", ["last." + name for name in names]),
        target,
        base,
        grid_around(base),
    )
    columns = ["changed", "kept", "read", "refreshes", "kl", "top1", "run_kept", "run_read"]
    again = tuned.table.filter(pl.col("kl").is_not_null()).select(columns)
    front = tuned.table.filter("on_front").sort("read").select(columns[:4])
    parts = [
        ("What it says", f"`{tuned.settings.to_code()}`\n\n{tuned.why}"),
        ("Run again", table(again, 4)),
        ("The front (proxy)", table(front, 4)),
    ]
    tables = {"settings": tuned.table, "prompts": store.frame("prompts", names)}
    return tables, parts, {"settings": tuned.settings.to_dict(), "code": tuned.settings.to_code(), "why": tuned.why}
