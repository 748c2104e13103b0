"""Greedy token and log-probability on the device: one pass over the logits, then one program that joins the chunks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CHUNK = 4096


@triton.jit
def chunk_kernel(LOGITS, PART, PLACE, stride, v, chunks, SIZE: tl.constexpr):
    """max, Σ exp(x - max) and the first position of the max of one chunk; grid (B, chunks)."""
    b = tl.program_id(0)
    c = tl.program_id(1)
    i = c * SIZE + tl.arange(0, SIZE)
    x = tl.load(LOGITS + b.to(tl.int64) * stride + i, mask=i < v, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    safe = tl.where(top == float("-inf"), 0.0, top)
    at = b * chunks + c
    tl.store(PART + at * 2, top)
    tl.store(PART + at * 2 + 1, tl.sum(tl.exp(x - safe), 0))
    tl.store(PLACE + at, tl.min(tl.where((x == top) & (i < v), i, v), 0))


@triton.jit
def join_kernel(
    LOGITS, PART, PLACE, CHOSEN, TOKEN, LOGPROB, stride, v, chunks, BLOCK_C: tl.constexpr, HAS_CHOSEN: tl.constexpr
):
    """The likeliest token (or the chosen one) and x(token) - log Σ exp x; grid (B,)."""
    b = tl.program_id(0)
    c = tl.arange(0, BLOCK_C)
    there = c < chunks
    top = tl.load(PART + (b * chunks + c) * 2, mask=there, other=float("-inf"))
    mass = tl.load(PART + (b * chunks + c) * 2 + 1, mask=there, other=0.0)
    place = tl.load(PLACE + b * chunks + c, mask=there, other=v)
    best = tl.max(top, 0)
    total = tl.sum(mass * tl.exp(top - best), 0)
    if HAS_CHOSEN:
        token = tl.load(CHOSEN + b)
        best_value = tl.load(LOGITS + b.to(tl.int64) * stride + token).to(tl.float32)
    else:
        token = tl.minimum(tl.min(tl.where(top == best, place, v), 0), v - 1)
        best_value = best
    tl.store(TOKEN + b, token)
    tl.store(LOGPROB + b, best_value - best - tl.log(total))


def run(logits: torch.Tensor, chosen: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Launches both kernels; see `sfi_lab.runtime.ops.best_token`."""
    batch, v = logits.shape
    chunks = triton.cdiv(v, CHUNK)
    part = torch.empty((batch, chunks, 2), dtype=torch.float32, device=logits.device)
    place = torch.empty((batch, chunks), dtype=torch.int32, device=logits.device)
    token = torch.empty(batch, dtype=torch.int32, device=logits.device)
    logprob = torch.empty(batch, dtype=torch.float32, device=logits.device)
    chunk_kernel[(batch, chunks)](logits, part, place, logits.stride(0), v, chunks, SIZE=CHUNK, num_warps=8)
    join_kernel[(batch,)](
        logits, part, place, token if chosen is None else chosen, token, logprob, logits.stride(0), v, chunks,
        BLOCK_C=triton.next_power_of_2(chunks), HAS_CHOSEN=chosen is not None, num_warps=1,
    )  # fmt: skip
    return token, logprob
