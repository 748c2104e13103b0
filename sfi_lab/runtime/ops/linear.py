"""A linear layer of a decode step, with what stands before and behind it in a decoder layer.

x' = norm · x / sqrt(mean(x²) + ε)                 only for a `Stream`, whose norm was named when it was made
y  = x' Wᵀ + bias
y  = silu(y[:, :N/2]) · y[:, N/2:]                 only if gated: W holds gate and up one below the other
y  = residual + y                                  only with a residual
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sfi_kernels import backend_for

_MOST_ROWS = 32  # rows of x the skinny kernel takes; above them a step is no longer bound by reading the weights


@dataclass(frozen=True)
class Stream:
    """The residual stream, and what the next norm needs of it.

    A norm's weight multiplies before the projection and its scale can multiply behind it, so whoever writes the stream
    leaves hidden · weight and its own part of Σ hidden², and the projection that follows reads nothing twice.
    """

    hidden: Tensor  # [M, K]
    norm: Tensor  # [K], the next norm's weight
    scaled: Tensor | None = None  # [M, K], hidden · norm rounded; None: plain torch computes the norm as the model does
    squares: Tensor | None = None  # float32 [P, M], parts of Σ hidden²


def linear(
    x: Tensor | Stream,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    next_norm: Tensor | None = None,
    eps: float = 1e-6,
    pdl: bool = False,
    backend: str | None = None,
) -> Tensor | Stream:
    """The formula above in one launch.

    Args:
        x: [M, K], one row a sequence, or a stream of that shape. weight: [N, K] (gated: N = 2 · outputs). bias: [N].
        residual: [M, N], added last. next_norm: [N]; the result is then a stream that this norm follows.
        pdl: let the next launch begin while this one ends (CUDA graphs keep it).
        backend: by default Triton for bfloat16 on CUDA with up to 32 rows, else plain torch; every other dtype
            would either overflow between norm weight and scale (float16) or be bound by arithmetic (float32).

    Returns:
        [M, N] or, gated, [M, N / 2], in x's dtype; a stream where next_norm is given.
    """
    source = x.hidden if isinstance(x, Stream) else x
    if suited(source, backend) == "triton":
        from sfi_lab.runtime.ops.linear_triton import run

        return run(x, weight, bias, eps, residual, gated, next_norm, pdl)
    source = rms_norm(x.hidden, x.norm, eps) if isinstance(x, Stream) else x
    y = F.linear(source, weight, bias)
    if gated:
        gate, up = y.chunk(2, dim=-1)
        y = F.silu(gate) * up
    y = y if residual is None else residual + y
    return y if next_norm is None else Stream(y, next_norm)


def embed(tokens: Tensor, table: Tensor, next_norm: Tensor, backend: str | None = None) -> Stream:
    """The stream's beginning: rows of the embedding. tokens int32 [M], table [V, K], next_norm [K]."""
    if suited(table[:1].expand(len(tokens), -1), backend) == "triton":
        from sfi_lab.runtime.ops.linear_triton import run_embed

        return run_embed(tokens, table, next_norm)
    return Stream(F.embedding(tokens, table), next_norm)


def suited(x: Tensor, backend: str | None) -> str:
    """The backend for rows like x: the caller's choice, else Triton where the skinny kernel is right and quick."""
    if backend is None and (x.dtype != torch.bfloat16 or x.shape[0] > _MOST_ROWS):
        return "reference"
    return backend_for(x, backend)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) in float32, rounded, times the weight: the order Llama and Qwen models use. x [..., K], weight [K]."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
