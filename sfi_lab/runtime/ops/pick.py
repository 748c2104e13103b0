"""The likeliest token of every sequence, and the log-probability of the token that was taken."""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_kernels import backend_for


def best_token(logits: Tensor, chosen: Tensor | None = None, backend: str | None = None) -> tuple[Tensor, Tensor]:
    """argmax (the lower id among equals) and log softmax at the token.

    Args:
        logits: [B, V]. chosen: int32 [B], tokens drawn elsewhere; None takes the likeliest.

    Returns:
        tokens int32 [B], log-probabilities float32 [B].
    """
    if backend_for(logits, backend) == "triton":
        from sfi_lab.runtime.ops.pick_triton import run

        return run(logits, chosen)
    wide = logits.float()
    token = wide.argmax(-1) if chosen is None else chosen.long()
    logprob = wide.gather(1, token[:, None])[:, 0] - wide.logsumexp(-1)
    return token.to(torch.int32), logprob
