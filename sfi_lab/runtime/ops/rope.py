"""Between the q/k/v projection and attention: norm of q and k per head, RoPE, and the new rows into the paged cache.

h'    = norm_weight · h / sqrt(mean(h²) + ε)       per head, only where the model has such norms
rot   = h' cos(p) + (-h'[D/2:], h'[:D/2]) sin(p)   q and k; p = the sequence's newest position
pages = rot(k), v at p; norms[p] = ‖rot(k)‖ of the row as stored
"""

from __future__ import annotations

import torch
from torch import Tensor

from sfi_kernels import backend_for, write_cache
from sfi_lab.runtime.ops.linear import rms_norm


def rope_write(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    block_tables: Tensor,
    key_norms: Tensor,
    *,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 1e-6,
    pdl: bool = False,
    backend: str | None = None,
) -> Tensor:
    """Writes the step's K/V and returns its queries.

    Args:
        qkv: [B, (H_q + 2 H_kv) · D], the heads of q, then k, then v. cos, sin: [positions, D] in qkv's dtype.
        positions: int32 [B]. k_pages, v_pages: [pages, H_kv, page, D]. block_tables: int32 [B, max_pages].
        key_norms: float32 [B, H_kv, L]. q_norm, k_norm: [D], both or neither.

    Returns:
        q after norm and RoPE [B, H_kv, G, D].
    """
    batch, kv_heads, dim = qkv.shape[0], k_pages.shape[1], k_pages.shape[3]
    if backend_for(qkv, backend) == "triton":
        from sfi_lab.runtime.ops.rope_triton import run

        return run(qkv, cos, sin, positions, k_pages, v_pages, block_tables, key_norms, q_norm, k_norm, eps, pdl)
    heads = qkv.view(batch, -1, dim)
    q, k, v = heads.split([heads.shape[1] - 2 * kv_heads, kv_heads, kv_heads], dim=1)
    if q_norm is not None:
        q, k = rms_norm(q, q_norm, eps), rms_norm(k, k_norm, eps)
    c, s = cos[positions.long(), None], sin[positions.long(), None]
    q, k = (x * c + _rotated(x) * s for x in (q, k))
    write_cache(k, v, k_pages, v_pages, block_tables, positions, key_norms=key_norms, backend=backend)
    return q.reshape(batch, kv_heads, -1, dim)


def _rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
