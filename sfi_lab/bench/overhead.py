"""What the decode loop and the recording cost beside the model's forward, in shares of a step."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfi_lab.bench.machine import machine
from sfi_lab.lab import Lab, load
from sfi_lab.settings import Settings
from sfi_lab.text import pydoc_document


def measure(model: str, device: str, dtype: str, prompt_tokens: int, new_tokens: int, rounds: int) -> dict[str, Any]:
    """Runs both arms in turn, `rounds` times after a warm-up of each, on Python's own documentation.

    Returns milliseconds a step (medians over the rounds) and the two shares:
    loop_share: 1 - forward / step with recording off; everything but the model's forward.
    support_share: step with "support" recording over the step without, minus 1.
    """
    lab = load(model, device, dtype)
    ids = lab.tokenizer(pydoc_document(prompt_tokens * 8))["input_ids"][:prompt_tokens]
    settings = Settings.paper(k=min(256, prompt_tokens // 4), recent=128)
    arms: dict[str, list[tuple[float, float]]] = {"off": [], "support": []}
    for round_ in range(rounds + 1):
        for record, seen in arms.items():
            step, forward = _step_ms(lab, ids, settings, new_tokens, record)
            if round_:  # the first of each warms up
                seen.append((step, forward))
    off, forward = (statistics.median(column) for column in zip(*arms["off"], strict=True))
    support = statistics.median(step for step, _ in arms["support"])
    loop_shares = [1 - f / s for s, f in arms["off"]]
    ratios = [b[0] / a[0] - 1 for a, b in zip(arms["off"], arms["support"], strict=True)]
    return {
        "model": lab.name,
        "prompt_tokens": len(ids),
        "new_tokens": new_tokens,
        "rounds": rounds,
        "settings": settings.to_code(),
        "step_ms": round(off, 3),
        "forward_ms": round(forward, 3),
        "support_step_ms": round(support, 3),
        "loop_share": round(statistics.median(loop_shares), 4),
        "support_share": round(statistics.median(ratios), 4),
        "support_share_range": [round(min(ratios), 4), round(max(ratios), 4)],
        "machine": machine(lab.device),
    }


def report(found: dict[str, Any]) -> str:
    """The same as two lines for a person."""
    low, high = found["support_share_range"]
    where = found["machine"]
    return "\n".join(
        [
            f"{found['model']}, {found['prompt_tokens']} prompt and {found['new_tokens']} new tokens, {found['settings']}, "
            f"median of {found['rounds']} pairs, {where['cpu']} ({where['threads']} threads), torch {where['torch']}",
            f"loop, recording off:  {found['loop_share']:6.1%} of a step of {found['step_ms']:.1f} ms is not the model's forward (goal ≤ 5 %)",
            f"'support' recording:  {found['support_share']:+6.1%} of a step, pairs {low:+.1%} to {high:+.1%} (goal ≤ 25 %)",
        ]
    )


def _step_ms(lab: Lab, ids: list[int], settings: Settings, new_tokens: int, record: str) -> tuple[float, float]:
    """Milliseconds of a decode step and of the model's forward within it, means over one run."""
    with tempfile.TemporaryDirectory() as folder, _forward_clock(lab) as forwards:
        result = lab.generate(
            ids, settings, new_tokens, record=record, trace=Path(folder) / "trace", ignore_eos=True, progress=False
        )
    decoded = len(result.steps) - 1
    return result.seconds / decoded * 1e3, sum(forwards[-decoded:]) / decoded * 1e3


@contextmanager
def _forward_clock(lab: Lab) -> Iterator[list[float]]:
    """Seconds of each call of the model's forward."""
    seconds: list[float] = []
    began = 0.0

    def before(*_: Any) -> None:
        nonlocal began
        began = time.perf_counter()

    def after(*_: Any) -> None:
        seconds.append(time.perf_counter() - began)

    hooks = lab.model.register_forward_pre_hook(before), lab.model.register_forward_hook(after)
    try:
        yield seconds
    finally:
        for hook in hooks:
            hook.remove()
