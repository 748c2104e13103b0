"""Tuning: which settings keep the most attention for the fewest keys read, and why these.

The search is a proxy: every setting is tried on recorded runs, without the model. The best few are then run again
(teacher-forced on the recorded tokens) and the last word is the run's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfi_lab.analysis.fidelity import compare_logits
from sfi_lab.analysis.replay import LayerReplay
from sfi_lab.analysis.schedule import schedule
from sfi_lab.analysis.statistics import bootstrap_mean, spearman
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.studies.controls import _spread
from sfi_lab.studies.forced import SlowFast, forced_pass
from sfi_lab.studies.prefix import Prefix
from sfi_lab.trace import Trace

if TYPE_CHECKING:
    from sfi_lab.lab import Lab

LAYERS = 6  # looked at by the proxy


@dataclass(frozen=True, slots=True)
class Target:
    """ "kept>=0.95": the fewest keys that keep that share of attention; "read<=0.2": the most attention for that share of keys."""

    measure: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Target:
        found = re.fullmatch(r"\s*(kept\s*>=|read\s*<=)\s*(0?\.\d+|1(?:\.0+)?|0)\s*", text)
        if not found:
            raise SfiError(
                f"target {text!r} is not allowed; allowed: 'kept>=0.95' (fewest keys) or 'read<=0.2' (most attention), shares from 0 to 1"
            )
        return cls(found[1][:4], float(found[2]))

    def best(self, points: pl.DataFrame) -> pl.DataFrame:
        """The points (kept, read) sorted by how well they meet the target, best first: those that meet it come before the rest."""
        if self.measure == "kept":
            return points.sort(
                [
                    pl.col("kept") < self.bound,
                    pl.when(pl.col("kept") >= self.bound).then("read").otherwise(-pl.col("kept")),
                ]
            )
        return points.sort(
            [
                pl.col("read") > self.bound,
                pl.when(pl.col("read") <= self.bound).then(-pl.col("kept")).otherwise(pl.col("read")),
            ]
        )

    def met(self, kept: float, read: float) -> bool:
        return kept >= self.bound if self.measure == "kept" else read <= self.bound

    def __str__(self) -> str:
        return f"kept ≥ {self.bound}" if self.measure == "kept" else f"read ≤ {self.bound}"


@dataclass(frozen=True, slots=True)
class Tuned:
    """settings: the winner. table: one row a setting tried, best first: settings (as code), changed (against the base), kept,
    kept_low, kept_high, read, refreshes, on_front, meets_target, and of those run again kl, run_kept, run_read. why: sentences."""

    settings: Settings
    table: pl.DataFrame
    why: str
    confirmed: bool


def tune(
    traces: Trace | Sequence[Trace],
    target: str = "kept>=0.95",
    *,
    base: Settings | None = None,
    grid: Sequence[Settings] | None = None,
    layers: Sequence[int] | None = None,
    lab: Lab | None = None,
    confirm: int = 4,
    progress: Callable[[str], None] | None = None,
) -> Tuned:
    """Searches settings on recorded runs and confirms the best few by running them again.

    Args:
        traces: recorded with "+qk", of the model that `lab` holds. target: see `Target`.
        base: where the grid starts (default: the first trace's settings; a dense trace's K is not a start, so give one).
        grid: settings to try (default: `grid_around(base)`). layers: looked at (default: six, evenly spread).
        lab: the model, to confirm by re-runs; without it the result is a proxy's and says so. confirm: how many are re-run.
    """
    runs = [traces] if isinstance(traces, Trace) else list(traces)
    if not runs:
        raise SfiError("tune needs at least one trace")
    wanted, base = Target.parse(target), base or runs[0].settings
    if base.is_dense:
        raise SfiError(
            "the trace is a dense run, so there is no K to start from; give base=Settings.paper(k=…, recent=…)"
        )
    tried = list(grid) if grid is not None else grid_around(base)
    say = progress or (lambda line: None)
    rows = []
    for trace in runs:
        rows.append(sweep(trace, tried, layers).with_columns(pl.lit(trace.path.name).alias("prompt")))
        say(f"tune: {len(tried)} settings tried on {trace.path.name}")
    points = combine(pl.concat(rows))
    finalists = choose(points, wanted, confirm)
    confirmed = None
    if lab is not None:
        found = []
        for trace in runs:
            prefix = Prefix(lab, trace.tokens.filter(pl.col("role") == "prompt")["token_id"].to_list())
            found.append(
                rerun(prefix, trace, [tried[i] for i in finalists], finalists).with_columns(
                    pl.lit(trace.path.name).alias("prompt")
                )
            )
            say(f"tune: {len(finalists)} settings run again on {trace.path.name}")
        confirmed = pl.concat(found)
    return conclude(points, confirmed, wanted, base, tried)


def grid_around(base: Settings) -> list[Settings]:
    """K, recent, trigger, window mode and selector stages around `base`, which is the first; no duplicates."""
    made = [base]
    ks = [max(1, round(base.k * factor)) for factor in (0.25, 0.5, 1, 1.5, 2)]
    recents = [max(1, round(base.recent * factor)) for factor in (0.5, 1, 2)]
    triggers = [{}, *({"trigger": "period", "period": p, "t_max": 0} for p in (8, 16, 32))]
    selectors = [{}, {"lam": 0.0, "nms_strength": 0.0, "exclusivity": 0.0}]
    for k in ks:
        for recent in recents:
            for trigger in triggers:
                made += [base.with_(k=k, recent=recent, **trigger, **selector) for selector in selectors]
    made += [s.with_(recent_mode="pinned") for s in made if s.recent == base.recent]
    return list(dict.fromkeys(made))


def sweep(trace: Trace, tried: Sequence[Settings], layers: Sequence[int] | None = None) -> pl.DataFrame:
    """Proxy of every setting on one trace: setting (its index), kept, read (share of keys), refreshes; means over steps."""
    chosen = list(layers) if layers is not None else _spread(trace.qk_layers, LAYERS)
    if not chosen:
        raise SfiError(f"{trace.path} keeps no queries and keys; record with '+qk'")
    kept, read = np.zeros(len(tried)), np.zeros(len(tried))
    refreshes = np.zeros(len(tried), int)
    for layer in chosen:
        replay = LayerReplay(trace, layer, output_error=False)
        for i, settings in enumerate(tried):
            replayed = replay.run(settings)
            kept[i] += replayed.kept.mean() / len(chosen)
            read[i] += replayed.keys_read.sum() / replayed.schedule.lengths.sum() / len(chosen)
            refreshes[i] = len(replayed.schedule.refreshes)
    return pl.DataFrame(
        {"setting": np.arange(len(tried), dtype=np.int32), "kept": kept, "read": read, "refreshes": refreshes}
    )


def combine(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over prompts: setting, kept, kept_low, kept_high, read, refreshes, on_front (no other keeps more for fewer keys)."""
    found = []
    for (setting,), part in rows.group_by("setting", maintain_order=True):
        e = bootstrap_mean(part["kept"], draws=500)
        found.append(
            {
                "setting": setting,
                "kept": e.value,
                "kept_low": e.low,
                "kept_high": e.high,
                "read": part["read"].mean(),
                "refreshes": part["refreshes"].mean(),
            }
        )
    points = pl.DataFrame(found).with_columns(pl.col(pl.Float64).fill_nan(None))
    return points.with_columns(pl.Series("on_front", pareto(points["read"].to_numpy(), points["kept"].to_numpy())))


def pareto(cost: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """True where no other point has at most the cost and at least the gain, and one of them better."""
    order = np.lexsort((-gain, cost))
    on, best = np.zeros(len(cost), bool), -np.inf
    for i in order:
        if gain[i] > best:
            on[i], best = True, gain[i]
    return on


def choose(points: pl.DataFrame, target: Target, confirm: int) -> list[int]:
    """The base (setting 0) and the settings of the front that meet the target best."""
    best = target.best(points.filter("on_front"))["setting"].to_list()
    return list(dict.fromkeys([*best[:confirm], 0]))


def rerun(prefix: Prefix, trace: Trace, chosen: Sequence[Settings], numbers: Sequence[int]) -> pl.DataFrame:
    """Teacher-forced runs on a trace's tokens: setting, kl (to dense), top1, run_kept (on the proxy's layers), run_read."""
    tokens = trace.token_ids
    columns = [trace.qk_layers.index(layer) for layer in _spread(trace.qk_layers, LAYERS)]
    dense = forced_pass(prefix, tokens, None)
    found = []
    for number, settings in zip(numbers, chosen, strict=True):
        run = forced_pass(prefix, tokens, SlowFast(settings, schedule(trace, settings).plans))
        compared = compare_logits(dense.logits[1:], run.logits[1:])
        found.append(
            {
                "setting": number,
                "kl": compared["kl"].mean(),
                "top1": compared["top1_agrees"].mean(),
                "run_kept": float(run.kept[:, columns].mean()),
                "run_read": run.read_share,
            }
        )
    return pl.DataFrame(found, schema_overrides={"setting": pl.Int32})


def conclude(
    points: pl.DataFrame, confirmed: pl.DataFrame | None, target: Target, base: Settings, tried: Sequence[Settings]
) -> Tuned:
    """The winner and the table that says why."""
    shown = points.with_columns(
        pl.Series("settings", [tried[i].to_code() for i in points["setting"]]),
        pl.Series("changed", [_changed(base, tried[i]) for i in points["setting"]]),
        pl.Series("meets_target", [target.met(k, r) for k, r in points.select("kept", "read").iter_rows()]),
    )
    if confirmed is not None:
        again = confirmed.group_by("setting").agg(pl.col("kl", "top1", "run_kept", "run_read").mean())
        shown = shown.join(again, on="setting", how="left", maintain_order="left")
        run = shown.filter(pl.col("run_kept").is_not_null()).with_columns(kept="run_kept", read="run_read")
        ranked = target.best(run)
    else:
        ranked = target.best(shown.filter("on_front"))
    winner = ranked.row(0, named=True)
    table_ = target.best(shown)
    return Tuned(tried[winner["setting"]], table_, _why(winner, shown, target, confirmed), confirmed is not None)


def _why(winner: dict, shown: pl.DataFrame, target: Target, confirmed: pl.DataFrame | None) -> str:
    base = shown.filter(pl.col("setting") == 0).row(0, named=True)
    kind, base_kind = "predicted from the recordings (proxy, not confirmed by a re-run)", "proxy"
    if confirmed is not None:  # the base is among the settings run again, so both numbers are of one kind
        kind = base_kind = "measured by re-runs"
        base |= {"kept": base["run_kept"], "read": base["run_read"]}
    met = "meets" if target.met(winner["kept"], winner["read"]) else "misses, as does everything tried,"
    lines = [
        f"{winner['settings']} {met} the target {target}: it keeps {winner['kept']:.4f} of the attention and reads {winner['read']:.1%} of the keys ({kind}).",
        f"The base keeps {base['kept']:.4f} for {base['read']:.1%} of the keys ({base_kind}). Changed: {winner['changed']}.",
        f"{shown.height} settings were tried, {int(shown['on_front'].sum())} of them on the front.",
    ]
    if confirmed is not None:
        again = shown.filter(pl.col("run_kept").is_not_null())
        lines.append(
            f"Proxy against re-run over {again.height} settings: kept mass off by {(again['kept'] - again['run_kept']).abs().mean():.4f} on average, "
            f"rank correlation {spearman(again['kept'], again['run_kept']):.2f}; KL to dense of the winner {winner['kl']:.4f}, of the base {base['kl']:.4f}."
        )
    return " ".join(lines)


def _changed(base: Settings, settings: Settings) -> str:
    return ", ".join(f"{name} {old!r} → {new!r}" for name, (old, new) in base.diff(settings).items()) or "nothing"
