"""A table of selector settings: what each keeps on recorded evidence, against the recorded settings, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfi_lab.figures import published
from sfi_lab.figures.material import Material
from sfi_lab.figures.reselect import Change, difference, level, reselected, unit_word
from sfi_lab.figures.rows import in_points
from sfi_lab.figures.table import Table, interval

NOT_ALIKE = (
    f"Published: LongBench-V1 average of Qwen3-30B-A3B ({published.SOURCE}), another model, measure and K; the columns can be "
    "compared in their order at most."
)


@dataclass(frozen=True, slots=True)
class RowOf:
    """One setting: its name, how it is made, and the published score or None."""

    name: str
    change: Change
    published: str | None


def selector_table(material: Material, what: str, rows: Sequence[RowOf], label: str, about: str) -> Table:
    """Mass kept and output error of each row at the recorded refresh steps, and their paired differences to the recording."""
    traces = material.with_queries()
    base = reselected(material, traces, lambda s: s)
    cells = []
    for row in rows:
        got = reselected(material, traces, row.change)
        same = all(row.change(t.settings) == t.settings for t in traces)
        kept, error = in_points(difference(got.kept, base.kept)), in_points(difference(got.error, base.error))
        cells.append(
            (
                row.name,
                f"{100 * level(got.kept).value:.2f}",
                "as recorded" if same else interval(kept.value, kept.low, kept.high, "+.2f"),
                f"{100 * level(got.error).value:.2f}",
                "as recorded" if same else interval(error.value, error.low, error.high, "+.2f"),
                row.published,
            )
        )
    model = traces[0].meta["model"]["name"]
    caption = (
        f"Exact re-selection on recorded evidence: {model}, {traces[0].settings.to_code()}, fast steps, mean over layers "
        f"{', '.join(map(str, traces[0].qk_layers))} and heads. Differences to the recorded settings are paired, with 95 % "
        f"bootstrap intervals over {len(base.kept)} {unit_word(traces)}. Output error: relative error of the attention output. {about}"
    )
    head = (
        what,
        "mass kept (%)",
        "against recorded (points)",
        "output error (%)",
        "against recorded (points)",
        "published: LongBench-V1",
    )
    return Table(head, tuple(cells), caption, label)
