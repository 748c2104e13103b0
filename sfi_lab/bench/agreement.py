"""The engine against the reference loop on a CPU: the same tokens, or how close the scores were where they part."""

from __future__ import annotations

from typing import Any

from sfi_lab.bench.machine import machine
from sfi_lab.lab import load
from sfi_lab.settings import Settings
from sfi_lab.text import pydoc_document


def measure(
    model: str, device: str, prompt_tokens: int, new_tokens: int, settings: list[Settings]
) -> list[dict[str, Any]]:
    """Greedy decoding in float32 on a prompt from Python's own documentation; one row a settings.

    same_tokens, first_difference, and there logit_gap: the reference's log-probability of its own token minus that of
    the engine's. Tokens a second of the reference on the CPU and of the engine on `device`.
    """
    reference, other = load(model, "cpu", "float32"), load(model, device, "float32")
    ids = reference.tokenizer(pydoc_document(prompt_tokens * 8), verbose=False)["input_ids"][:prompt_tokens]
    options: dict[str, Any] = {"ignore_eos": True, "progress": False}
    rows = []
    for each in settings:
        want = reference.generate(ids, each, new_tokens, engine="reference", **options)
        other.generate(ids, each, 8, engine="graph", **options)  # captures and compiles
        found = other.generate(ids, each, new_tokens, engine="graph", **options)
        pairs = list(zip(want.steps, found.steps, strict=True))
        first = next((i for i, (a, b) in enumerate(pairs) if a.token_id != b.token_id), None)
        gap = None
        if first is not None:
            forced = [*want.token_ids[:first], found.token_ids[first]]
            chosen = reference.generate(ids, each, engine="reference", force=forced, progress=False)
            gap = want.steps[first].logprob - chosen.steps[first].logprob
        rows.append(
            {
                "bench": "agreement",
                "model": model,
                "settings": each.to_code(),
                "prompt_tokens": len(ids),
                "steps": new_tokens - 1,
                "same_tokens": first is None,
                "first_difference": first,
                "logit_gap": gap,
                "same_reasons": [a.reason for a, _ in pairs[:first]] == [b.reason for _, b in pairs[:first]],
                "largest_logprob_difference": max(abs(a.logprob - b.logprob) for a, b in pairs[:first]),
                "slow_steps": want.slow_steps,
                "keys_read_share": want.keys_read_share,
                "reference_tokens_per_second": want.tokens_per_second,
                "engine_tokens_per_second": found.tokens_per_second,
                **machine(other.device),
            }
        )
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """The same in a line a row."""
    lines = []
    for row in rows:
        same = (
            "the same tokens"
            if row["same_tokens"]
            else (
                f"the first difference at step {row['first_difference']}, where the scores are {row['logit_gap']:.2g} apart"
            )
        )
        lines.append(
            f"{row['model']}, {row['settings']}, {row['steps']} steps after {row['prompt_tokens']} tokens: {same}; log-probabilities "
            f"within {row['largest_logprob_difference']:.1g}; {row['reference_tokens_per_second']:.0f} tok/s on the CPU, "
            f"{row['engine_tokens_per_second']:.0f} on {row['device']}"
        )
    return "\n".join(lines)
