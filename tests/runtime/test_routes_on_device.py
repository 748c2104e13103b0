"""Counters and triggers of the table against the reference's Planner, token by token."""

import random

import pytest
import torch

from sfi_lab.runtime.ops import advance
from sfi_lab.runtime.ops.advance import ENDER, OPENER
from sfi_lab.runtime.state import FIELDS, REASONS, BatchState, Rules
from sfi_lab.sentences import SentenceEvent
from sfi_lab.settings import Settings
from sfi_lab.trigger.plan import Planner

BASE = {"sink": 2, "recent": 4, "k": 6}
SETTINGS = [
    Settings.paper(**BASE, t_max=7),
    Settings.released(**BASE, min_gap=3, cooldown=2, t_max=9, recent_mode="pinned"),
    Settings.paper(**BASE, cooldown=3, fire_on="next_sentence"),
    Settings.paper(**BASE, trigger="period", period=4, t_max=0),
    Settings.paper(**BASE, trigger="never", t_max=5),
]
IDS = {"ender": ENDER, "opener": OPENER, "space": 0}


@pytest.mark.parametrize("settings", SETTINGS, ids=[s.to_code() for s in SETTINGS])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_table_decides_as_the_planner_does(settings, seed):
    """Tokens of three kinds: enders, openers (any word) and white space. Sequences begin short, so that some first find
    nothing to select."""
    lengths, classes = [1, 5, 13, 40], torch.tensor(list(IDS.values()), dtype=torch.int8)
    state = BatchState(len(lengths), torch.device("cpu"), 200, Rules.of(settings))
    state.length.copy_(torch.tensor(lengths))
    state.fast_steps.fill_(-1)
    planners, after_end, pinned = [Planner(settings) for _ in lengths], [False] * len(lengths), [0] * len(lengths)
    draw = random.Random(seed)
    for step in range(120):
        tokens = [draw.choices((0, 1, 2), (1, 6, 2))[0] for _ in lengths]
        advance(state, torch.tensor(tokens, dtype=torch.int32), torch.zeros(len(lengths)), classes, Rules.of(settings))
        for b, token in enumerate(tokens):
            lengths[b] += 1
            starts = token == 1 and after_end[b]
            after_end[b] = token == 0 or (after_end[b] and token == 2)
            plan = planners[b].next(lengths[b], SentenceEvent(0, token == 0, starts, ""))
            sliding = max(settings.sink, lengths[b] - settings.recent)
            pinned[b] = sliding if plan.refresh else pinned[b]
            start = pinned[b] if settings.recent_mode == "pinned" and plan.route == "fast" else sliding
            reason = plan.reason if plan.reason in REASONS else "trigger"
            want = {
                "length": lengths[b], "position": lengths[b] - 1, "route": int(plan.route == "slow"), "active": int(plan.refresh),
                "recent_start": start, "candidates": sliding - settings.sink if plan.refresh else 0,
                "reason": REASONS.index(reason),
            }  # fmt: skip
            got = {name: int(state.table[FIELDS.index(name), b]) for name in want}
            assert got == want, f"sequence {b}, step {step}, token {list(IDS)[token]}"
    assert {0, 1} <= set(state.history[:120, 1].clamp_max(1).unique().tolist())
