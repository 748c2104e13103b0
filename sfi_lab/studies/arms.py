"""The controls: what else could have been read, at the same number of refreshes and the same K."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfi_lab.analysis.schedule import schedule
from sfi_lab.settings import Settings
from sfi_lab.studies.forced import Oracle, Reading, SlowFast, window_only
from sfi_lab.studies.reference import Reference
from sfi_lab.trigger.plan import StepPlan


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to read. settings: None where the decoder has none for it (oracle, window alone). equal_refreshes: it was
    matched to the reference arm's number of refreshes."""

    name: str
    group: str
    readings: tuple[Reading, ...]
    settings: Settings | None
    refreshes: float
    equal_refreshes: bool = True


def arms(reference: Reference, base: Settings, random_draws: int = 3) -> list[Arm]:
    """Every control of one prompt; the first is the reference arm (`base` with its sentence trigger).

    Groups: "trigger", "selector", "query", "window", "memory", "preset". Arms of the groups selector and window share
    the reference's refresh steps exactly; trigger arms are matched in number by their period, seed or threshold.
    """
    plans = _plans(reference, base)
    count = _refreshes(plans)
    same: Callable[[Settings], SlowFast] = lambda settings: SlowFast(settings, plans)  # noqa: E731 - one line a use

    def arm(name: str, group: str, settings: Settings) -> Arm:
        return Arm(name, group, (same(settings),), settings, count)

    released = Settings.released(k=base.k, recent=base.recent, sink=base.sink)
    selector = {
        field: getattr(released, field)
        for field in ("alpha", "gamma", "beta", "power", "eta", "norm_weight", "position_weight", "lam", "lam_clip", "nms_radius",
                      "nms_strength", "exclusivity", "temperature")
    }  # fmt: skip
    return [
        arm("sentence (reference)", "trigger", base),
        *_trigger_arms(reference, base, count, random_draws),
        arm("λ = 0", "selector", base.with_(lam=0.0)),
        arm("no NMS", "selector", base.with_(nms_strength=0.0)),
        arm("no exclusivity", "selector", base.with_(exclusivity=0.0)),
        arm("plain Top-K of the evidence", "selector", base.with_(lam=0.0, nms_strength=0.0, exclusivity=0.0)),
        arm("released selector, same refreshes", "selector", base.with_(**selector)),
        Arm("oracle Top-K at every step", "selector", (Oracle(base.sink, base.recent, base.k),), None, 0, False),
        _own("next-sentence query", "query", reference, base.with_(fire_on="next_sentence")),
        arm("pinned window", "window", base.with_(recent_mode="pinned")),
        _own("first selection kept", "memory", reference, base.with_(trigger="never", t_max=0)),
        Arm("sink and recent alone", "memory", (window_only(base.sink, base.recent),), None, 0, False),
        _own("released preset", "preset", reference, released),
    ]


def _trigger_arms(reference: Reference, base: Settings, count: int, draws: int) -> list[Arm]:
    made = []
    period = _matched_period(reference, base, count)
    made.append(_own("fixed period", "trigger", reference, period, count))
    seeds = _matched_seeds(reference, base, count, draws)
    readings = tuple(SlowFast(s, _plans(reference, s)) for s in seeds)
    got = float(np.mean([_refreshes(r.plans) for r in readings]))
    made.append(Arm("random interval", "trigger", readings, seeds[0], got, abs(got - count) <= 1))
    made.append(_own("query drift", "trigger", reference, _matched_drift(reference, base, count), count))
    return made


def _own(name: str, group: str, reference: Reference, settings: Settings, matched_to: int | None = None) -> Arm:
    """An arm with the refresh steps of its own settings; matched where they are as many as wanted, give or take one."""
    plans = _plans(reference, settings)
    got = _refreshes(plans)
    return Arm(
        name, group, (SlowFast(settings, plans),), settings, got, matched_to is not None and abs(got - matched_to) <= 1
    )


def _plans(reference: Reference, settings: Settings) -> tuple[StepPlan, ...]:
    return schedule(reference.trace, settings).plans


def _refreshes(plans: tuple[StepPlan, ...]) -> int:
    return sum(plan.refresh for plan in plans)


def _matched_period(reference: Reference, base: Settings, count: int) -> Settings:
    """The period with as many refreshes, or the nearest number; of several the one nearest to steps / refreshes."""
    n = len(reference.tokens) - 1
    ideal = n / max(count, 1)
    tried = [base.with_(trigger="period", t_max=0, period=p) for p in range(1, n + 1)]
    return min(tried, key=lambda s: (abs(-(-n // s.period) - count), abs(s.period - ideal)))


def _matched_seeds(reference: Reference, base: Settings, count: int, draws: int, tries: int = 300) -> list[Settings]:
    """The first `draws` seeds of the random trigger whose number of refreshes is the same (or nearest)."""
    n = len(reference.tokens) - 1
    period = max(1, round(n / max(count, 1)))
    tried = [base.with_(trigger="random", t_max=0, period=period, seed=seed) for seed in range(tries)]
    distance = [abs(_random_refreshes(s, n) - count) for s in tried]
    return [tried[i] for i in np.argsort(distance, kind="stable")[:draws]]


def _random_refreshes(settings: Settings, n: int) -> int:
    """Refreshes of the random trigger in n steps, without the trace: it depends on nothing but its seed."""
    from sfi_lab.trigger.refresher import Refresher

    refresher = Refresher(settings)
    return sum(refresher.next(None) is not None for _ in range(n))


def _matched_drift(reference: Reference, base: Settings, count: int, rounds: int = 12) -> Settings:
    """Bisects the threshold; the drift is that of the dense trajectory's queries.

    The count doesn't fall steadily with the threshold, so where bisection misses it the surroundings are searched.
    """
    off: dict[float, int] = {}

    def excess(threshold: float) -> int:
        settings = base.with_(trigger="drift", t_max=0, drift_threshold=threshold)
        off[threshold] = _refreshes(_plans(reference, settings)) - count
        return off[threshold]

    low, high = 0.0, 2.0
    for _ in range(rounds):
        middle = (low + high) / 2
        found = excess(middle)
        if found == 0:
            break
        low, high = (middle, high) if found > 0 else (low, middle)
    best = min(off, key=lambda threshold: abs(off[threshold]))
    for factor in np.linspace(0.8, 1.2, 2 * rounds + 1) if off[best] else ():
        if excess(min(2.0, float(best * factor))) == 0:
            break
    best = min(off, key=lambda threshold: abs(off[threshold]))
    return base.with_(trigger="drift", t_max=0, drift_threshold=best)
