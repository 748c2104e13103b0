"""A linear layer of a decode step, with what stands before and behind it in a decoder layer.

    x' = norm_weight · x / sqrt(mean(x²) + ε)          only with a norm weight
    y  = x' Wᵀ + bias
    y  = silu(y[:, :N/2]) · y[:, N/2:]                 only if gated: W holds gate and up one below the other
    y  = residual + y                                  only with a residual
"""

from __future__ import annotations

import torch
from sfi_kernels import backend_for
from torch import Tensor
from torch.nn import functional as F

_MOST_ROWS = 64  # rows of x the skinny kernel takes; above them a step is no longer bound by reading the weights


def linear(
    x: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 1e-6,
    residual: Tensor | None = None,
    gated: bool = False,
    pdl: bool = False,
    backend: str | None = None,
) -> Tensor:
    """The formula above in one launch.

    Args:
        x: [M, K], one row a sequence. weight: [N, K] (gated: N = 2 · outputs). bias: [N]. norm: [K].
        residual: [M, N], added last. pdl: let the next launch begin while this one ends (CUDA graphs keep it).
        backend: by default Triton for bfloat16 on CUDA with up to 64 rows, else plain torch; every other dtype
            would either overflow between norm weight and scale (float16) or be bound by arithmetic (float32).

    Returns:
        [M, N] or, gated, [M, N / 2], in x's dtype.
    """
    if backend is None and (x.dtype != torch.bfloat16 or x.shape[0] > _MOST_ROWS):
        backend = "reference"
    if backend_for(x, backend) == "triton":
        from sfi_lab.runtime.ops.linear_triton import run

        return run(x, weight, bias, norm, eps, residual, gated, pdl)
    if norm is not None:
        x = rms_norm(x, norm, eps)
    y = F.linear(x, weight, bias)
    if gated:
        gate, up = y.chunk(2, dim=-1)
        y = F.silu(gate) * up
    return y if residual is None else residual + y


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) in float32, rounded, times the weight: the order Llama and Qwen models use. x [..., K], weight [K]."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
