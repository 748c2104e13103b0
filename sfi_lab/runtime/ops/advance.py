"""After a token is made: counters and triggers of every sequence, and with them the route of its next step.

The rules are those of `sfi_lab.trigger` (Planner, Refresher, SentencePolicy) for a batch on the device; where a
sentence ends is read off the token id alone (see `Rules`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_kernels import backend_for
from sfi_lab.runtime.state import (
    ALL_DONE,
    ANY_ACTIVE,
    ANY_DENSE,
    ANY_FAST,
    DONE,
    FAST,
    FIRST,
    NOTHING,
    T_MAX,
    TRIGGER,
    BatchState,
    Rules,
)

ENDER, OPENER, EOS = 1, 2, 4  # bits of the token classes


def advance(
    state: BatchState, token: Tensor, logprob: Tensor, classes: Tensor, rules: Rules, backend: str | None = None
) -> None:
    """Moves the table on to the next step, in place.

    Args:
        state: of the step just computed. token: int32 [B], made by it. logprob: float32 [B].
        classes: int8 [V], bits ENDER (in T_trig), OPENER (can open a sentence), EOS.
    """
    if backend_for(state.table, backend) == "triton":
        from sfi_lab.runtime.ops.advance_triton import run

        run(state, token, logprob, classes, rules)
        return
    t, bits = state, classes[token.long()].to(torch.int32)
    made = int(t.flags[1])
    if made < len(t.history):
        t.history[made, 0], t.history[made, 1] = token, t.reason
    t.tokens.copy_(token)
    t.logprobs.copy_(logprob)
    t.done.copy_(t.done | (bits & EOS != 0).int())
    going = t.done == 0
    ends, opens = bits & ENDER != 0, bits & OPENER != 0
    starts = opens & (t.after_end != 0)
    t.after_end.copy_(torch.where(ends, 1, torch.where(opens, 0, t.after_end)))
    t.length.add_(going.int())
    t.position.copy_(t.length - 1)
    sliding = (t.length - rules.recent).clamp_min(rules.sink)
    # clamped to what J - K > 0 needs: a window that reaches before the sink's end leaves no candidates
    nothing = (t.length - rules.recent - rules.sink).clamp_min(0) <= rules.k

    gap = t.fast_steps.clamp_min(0) + 1
    if rules.trigger == 1:
        cooling = t.ignored > 0
        fired = (starts if rules.on_start else ends) & ~cooling
        t.ignored.copy_(torch.where(fired, rules.cooldown, (t.ignored - 1).clamp_min(0)))
        due = fired & (gap >= rules.min_gap)
    else:
        due = (gap >= rules.period) if rules.trigger == 2 else torch.zeros_like(going)
    capped = (t.fast_steps >= rules.t_max) if rules.t_max else torch.zeros_like(going)
    reason = torch.where(due, TRIGGER, torch.where(capped, T_MAX, FAST))
    reason = torch.where(t.fast_steps < 0, FIRST, reason)
    reason = torch.where(nothing, NOTHING, reason)
    reason = torch.where(going, reason, DONE).int()
    t.reason.copy_(reason)
    select = (reason == FIRST) | (reason == TRIGGER) | (reason == T_MAX)
    dense = select | (reason == NOTHING)
    t.ignored.copy_(torch.where(nothing, 0, t.ignored))
    t.fast_steps.copy_(torch.where(nothing, -1, torch.where(select, 0, t.fast_steps + (reason == FAST).int())))
    t.pinned_start.copy_(torch.where(select, sliding, t.pinned_start))
    t.recent_start.copy_(torch.where(dense | (not rules.pinned), sliding, t.pinned_start))
    t.route.copy_(dense.int())
    t.active.copy_(select.int())
    t.candidates.copy_(torch.where(select, sliding - rules.sink, 0))
    flags = ANY_DENSE * bool(dense.any()) + ANY_ACTIVE * bool(select.any())
    t.flags[0] = flags + ANY_FAST * bool((reason == FAST).any()) + ALL_DONE * (not bool(going.any()))
    t.flags[1] += 1
