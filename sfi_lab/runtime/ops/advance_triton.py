"""The counters and triggers on the device: one program for the whole batch, so that the flags need no second launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sfi_lab.runtime.state import FIELDS, BatchState, Rules

LENGTH, POSITION, RECENT_START, ROUTE, ACTIVE, CANDIDATES, FAST_STEPS, IGNORED, AFTER_END, PINNED, REASON, DONE_ROW = (
    tl.constexpr(i) for i in range(len(FIELDS))
)


@triton.jit
def advance_kernel(
    TABLE, TOKEN, LOGPROB, CLASSES, TOKENS, LOGPROBS, FLAGS, HISTORY, LIMITS, batch, capacity,
    TRIGGER: tl.constexpr, ON_START: tl.constexpr, PIN: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """The rules of `advance.py`; reason codes 0 fast, 1 first, 2 trigger, 3 t_max, 4 nothing to select, 5 done."""
    b = tl.arange(0, BLOCK_B)
    there = b < batch
    sink = tl.load(LIMITS)
    recent = tl.load(LIMITS + 1)
    k = tl.load(LIMITS + 2)
    t_max = tl.load(LIMITS + 3)
    period = tl.load(LIMITS + 4)
    min_gap = tl.load(LIMITS + 5)
    cooldown = tl.load(LIMITS + 6)
    token = tl.load(TOKEN + b, mask=there, other=0)
    bits = tl.load(CLASSES + token, mask=there, other=0).to(tl.int32)
    made = tl.load(FLAGS + 1)
    keep = there & (made + b * 0 < capacity)
    tl.store(HISTORY + made.to(tl.int64) * 2 * batch + b, token, mask=keep)
    tl.store(
        HISTORY + (made.to(tl.int64) * 2 + 1) * batch + b,
        tl.load(TABLE + REASON * batch + b, mask=there, other=0),
        mask=keep,
    )
    tl.store(TOKENS + b, token, mask=there)
    tl.store(LOGPROBS + b, tl.load(LOGPROB + b, mask=there, other=0.0), mask=there)

    done = tl.load(TABLE + DONE_ROW * batch + b, mask=there, other=1) | ((bits >> 2) & 1)
    going = done == 0
    ends = (bits & 1) != 0
    opens = (bits & 2) != 0
    after_end = tl.load(TABLE + AFTER_END * batch + b, mask=there, other=0)
    starts = opens & (after_end != 0)
    after_end = tl.where(ends, 1, tl.where(opens, 0, after_end))
    length = tl.load(TABLE + LENGTH * batch + b, mask=there, other=0) + going.to(tl.int32)
    sliding = tl.maximum(length - recent, sink)
    nothing = tl.maximum(length - recent - sink, 0) <= k

    fast_steps = tl.load(TABLE + FAST_STEPS * batch + b, mask=there, other=0)
    gap = tl.maximum(fast_steps, 0) + 1
    ignored = tl.load(TABLE + IGNORED * batch + b, mask=there, other=0)
    if TRIGGER == 1:
        fired = (starts if ON_START else ends) & (ignored <= 0)
        ignored = tl.where(fired, cooldown, tl.maximum(ignored - 1, 0))
        due = fired & (gap >= min_gap)
    elif TRIGGER == 2:
        due = gap >= period
    else:
        due = gap < 0
    capped = (t_max > 0) & (fast_steps >= t_max)
    reason = tl.where(due, 2, tl.where(capped, 3, 0))
    reason = tl.where(fast_steps < 0, 1, reason)
    reason = tl.where(nothing, 4, reason)
    reason = tl.where(going, reason, 5)
    select = (reason >= 1) & (reason <= 3)
    dense = (reason >= 1) & (reason <= 4)
    pinned = tl.load(TABLE + PINNED * batch + b, mask=there, other=0)
    pinned = tl.where(select, sliding, pinned)
    start = sliding
    if PIN:
        start = tl.where(dense, sliding, pinned)
    fast_steps = tl.where(nothing, -1, tl.where(select, 0, fast_steps + (reason == 0).to(tl.int32)))
    tl.store(TABLE + LENGTH * batch + b, length, mask=there)
    tl.store(TABLE + POSITION * batch + b, length - 1, mask=there)
    tl.store(TABLE + RECENT_START * batch + b, start, mask=there)
    tl.store(TABLE + ROUTE * batch + b, dense.to(tl.int32), mask=there)
    tl.store(TABLE + ACTIVE * batch + b, select.to(tl.int32), mask=there)
    tl.store(TABLE + CANDIDATES * batch + b, tl.where(select, sliding - sink, 0), mask=there)
    tl.store(TABLE + FAST_STEPS * batch + b, fast_steps, mask=there)
    tl.store(TABLE + IGNORED * batch + b, tl.where(nothing, 0, ignored), mask=there)
    tl.store(TABLE + AFTER_END * batch + b, after_end, mask=there)
    tl.store(TABLE + PINNED * batch + b, pinned, mask=there)
    tl.store(TABLE + REASON * batch + b, reason, mask=there)
    tl.store(TABLE + DONE_ROW * batch + b, done, mask=there)
    any_dense = tl.max((there & dense).to(tl.int32), 0)
    any_active = tl.max((there & select).to(tl.int32), 0)
    any_fast = tl.max((there & (reason == 0)).to(tl.int32), 0)
    all_done = 1 - tl.max((there & going).to(tl.int32), 0)
    tl.store(FLAGS, any_dense + 2 * any_active + 4 * any_fast + 8 * all_done)
    tl.store(FLAGS + 1, made + 1)


def run(state: BatchState, token: torch.Tensor, logprob: torch.Tensor, classes: torch.Tensor, rules: Rules) -> None:
    """Launches the kernel; see `sfi_lab.runtime.ops.advance`."""
    advance_kernel[(1,)](
        state.table, token, logprob, classes, state.tokens, state.logprobs, state.flags, state.history,
        state.limits, state.batch, len(state.history), TRIGGER=rules.trigger, ON_START=rules.on_start, PIN=rules.pinned,
        BLOCK_B=triton.next_power_of_2(state.batch), num_warps=1,
    )  # fmt: skip
