"""How far a run is from dense: KL, agreement, divergence, perplexity. Logits, tokens or an audit trace in, frames out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
import torch
from torch import Tensor

from sfi_lab.errors import SfiError
from sfi_lab.trace import Trace

_ROWS = 64  # rows of vocabulary-wide softmax at a time


def compare_logits(reference: Tensor, run: Tensor, tokens: Sequence[int] | None = None) -> pl.DataFrame:
    """Two runs over the same tokens, row by row.

    Args:
        reference, run: logits [n, V], any float dtype; row t predicts tokens[t].
        tokens: [n], what was fed next; without it the log-probabilities are null.

    Returns:
        row, kl (KL(reference ‖ run), nats), top1_agrees, logprob_reference, logprob_run (nats).
    """
    if reference.shape != run.shape or reference.ndim != 2 or (tokens is not None and len(tokens) != len(run)):
        raise SfiError(
            f"compare_logits takes two [n, V] of the same shape and n tokens; got {tuple(reference.shape)}, {tuple(run.shape)}"
            + ("" if tokens is None else f" and {len(tokens)} tokens")
        )
    parts = []
    for start in range(0, len(run), _ROWS):
        a, b = (x[start : start + _ROWS].float().log_softmax(-1) for x in (reference, run))
        best_a, best_b = a.argmax(-1), b.argmax(-1)
        part = {
            "row": torch.arange(start, start + len(a)),
            "kl": (a.exp() * (a - b)).sum(-1).clamp_min(0.0),
            "top1_agrees": best_a == best_b,
        }
        if tokens is not None:
            fed = torch.tensor(tokens[start : start + len(a)], device=a.device)[:, None]
            part |= {"logprob_reference": a.gather(1, fed)[:, 0], "logprob_run": b.gather(1, fed)[:, 0]}
        parts.append(pl.DataFrame({name: value.cpu().numpy() for name, value in part.items()}))
    frame = pl.concat(parts)
    if tokens is None:
        frame = frame.with_columns(
            pl.lit(None, pl.Float32).alias(name) for name in ("logprob_reference", "logprob_run")
        )
    return frame


def summary(compared: pl.DataFrame) -> dict[str, float | int | None]:
    """Means of `compare_logits`: rows, kl, kl_p95, top1 (share that agrees), perplexity and perplexity_reference."""
    run, reference = compared["logprob_run"].mean(), compared["logprob_reference"].mean()
    return {
        "rows": compared.height,
        "kl": compared["kl"].mean(),
        "kl_p95": compared["kl"].quantile(0.95),
        "top1": compared["top1_agrees"].mean(),
        "perplexity": None if run is None else math.exp(-run),
        "perplexity_reference": None if reference is None else math.exp(-reference),
    }


def first_divergence(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first token that differs; None if one is a beginning of the other (or they are the same)."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


def perplexity(logprobs: Sequence[float]) -> float:
    """exp of the mean negative log-probability (natural logarithm). Raises SfiError for an empty sequence."""
    if not len(logprobs):
        raise SfiError("perplexity of no token at all is not defined")
    return math.exp(-sum(logprobs) / len(logprobs))


def fidelity_steps(trace: Trace) -> pl.DataFrame:
    """step, route, since_refresh (steps since the last refresh), kl, top1_agrees, missed_mass, logprob of an audit trace.

    kl is KL(dense ‖ run) on the run's own tokens, nats; missed_mass the dense attention on positions not read.
    """
    steps = trace.steps.filter(pl.col("route") != "prefill")
    if steps["kl"].null_count() == steps.height:
        raise SfiError(f"{trace.path} has no dense model beside the run; record with 'audit'")
    return steps.select(
        "step",
        "route",
        since_refresh=(pl.col("step") - pl.when("refreshed").then("step").forward_fill()).cast(pl.Int32),
        kl="kl",
        top1_agrees="top1_agrees",
        missed_mass="missed_mass",
        logprob="logprob",
    )


def fidelity(trace: Trace) -> dict[str, float | int | None]:
    """An audit trace in a few numbers: steps, kl, kl_p95, top1, kept (1 - missed mass), perplexity of its own tokens."""
    steps = fidelity_steps(trace)
    return {
        "steps": steps.height,
        "kl": steps["kl"].mean(),
        "kl_p95": steps["kl"].quantile(0.95),
        "kl_fast": steps.filter(pl.col("route") == "fast")["kl"].mean(),
        "top1": steps["top1_agrees"].mean(),
        "kept": 1 - steps["missed_mass"].mean(),
        "first_disagreement": next(iter(steps.filter(~pl.col("top1_agrees"))["step"]), None),
        "perplexity": perplexity(steps["logprob"].to_list()),
    }
