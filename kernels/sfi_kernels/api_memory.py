"""Public memory functions: packing the selected K/V, writing a step's new K/V."""

import torch

from . import checks
from .dispatch import implementation


def pack_memory(
    positions: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    packed_k: torch.Tensor,
    packed_v: torch.Tensor,
    counts: torch.Tensor,
    *,
    sink: int,
    active: torch.Tensor | None = None,
    backend: str | None = None,
) -> None:
    """Gather sink and selected K/V of one layer from the pages into its packed buffer.

    Args:
        positions: int32 [B, H_kv, K], absolute, the valid ones first, then -1 (`top_k(first=sink)`).
        k_pages, v_pages, block_tables, lengths: the paged cache as in `dense_decode`.
        packed_k, packed_v: [B, H_kv, rows, D], rows >= sink + K, written up to counts; the rest is left as it is.
        counts: int32 [B, H_kv], receives min(sink, length) + number of valid positions.
        sink: positions 0 .. sink - 1 come first (as far as the sequence has them).
        active: int32 [B], 0 leaves a sequence's packed memory as it is.
    """
    checks.shape("positions", positions, (None, k_pages.shape[1], None), "[B, H_kv, K]")
    batch, heads, k = positions.shape
    checks.pages(k_pages, v_pages, block_tables, batch)
    checks.dtype("positions", positions, (torch.int32,))
    checks.per_sequence(batch, lengths=lengths, active=active)
    for name, x in (("packed_k", packed_k), ("packed_v", packed_v)):
        checks.shape(name, x, (batch, heads, None, k_pages.shape[3]), "[B, H_kv, rows, D]")
        checks.dtype(name, x, (k_pages.dtype,))
        if x.shape[2] < sink + k:
            raise ValueError(f"{name} has {x.shape[2]} rows; sink + K = {sink + k} are needed")
    checks.shape("counts", counts, (batch, heads), "[B, H_kv]")
    checks.dtype("counts", counts, (torch.int32,))
    checks.contiguous(positions=positions, packed_k=packed_k, packed_v=packed_v, counts=counts)
    checks.same_device(
        positions=positions, k_pages=k_pages, packed_k=packed_k, counts=counts, lengths=lengths, active=active
    )
    implementation("pack", k_pages, backend).run(
        positions, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, sink=sink, active=active
    )


def write_cache(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_tables: torch.Tensor,
    positions: torch.Tensor,
    *,
    key_norms: torch.Tensor | None = None,
    backend: str | None = None,
) -> None:
    """Write new K/V rows into their pages and, if asked, the key norms.

    Args:
        k, v: [B, H_kv, D] (one token) or [B, T, H_kv, D]; unit stride in D.
        k_pages, v_pages, block_tables: the paged cache as in `dense_decode`.
        positions: int32 [B], absolute position of each sequence's first new token; negative: write nothing.
        key_norms: float [B, H_kv, L], receives ‖k‖ (of the row as stored) at index position; unit stride in L.
    """
    if k.shape != v.shape or k.ndim not in (3, 4):
        raise ValueError(
            f"k and v must be [B, H_kv, D] or [B, T, H_kv, D] and equal in shape, got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    k, v = (x.unsqueeze(1) if x.ndim == 3 else x for x in (k, v))
    checks.pages(k_pages, v_pages, block_tables, k.shape[0])
    checks.shape("k", k, (k.shape[0], k.shape[1], k_pages.shape[1], k_pages.shape[3]), "[B, T, H_kv, D]")
    checks.per_sequence(k.shape[0], positions=positions)
    checks.same_device(k=k, v=v, k_pages=k_pages, block_tables=block_tables, positions=positions, key_norms=key_norms)
    k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (k, v))
    if key_norms is not None:
        checks.shape("key_norms", key_norms, (k.shape[0], k.shape[2], None), "[B, H_kv, L]")
        if key_norms.stride(-1) != 1:
            raise ValueError(f"key_norms must have unit stride in its last dimension, got strides {key_norms.stride()}")
    implementation("cache", k_pages, backend).run(k, v, k_pages, v_pages, block_tables, positions, key_norms=key_norms)
