"""Launch of the attention kernel: from checked tensors to its arguments."""

import torch
import triton

from ..dispatch import interpreting
from ..plan.layout import DecodePlan
from .kernel import decode_kernel
from .tuning import DecodeTuning, default_tuning


def launch(
    q, k_pages, v_pages, block_tables, lengths, scale, *, softcap, plan: DecodePlan, out,
    scores=None, score_lse=None, sink=0, recent_start=None, packed_k=None, packed_v=None, counts=None,
    tuning: DecodeTuning | None = None,
) -> None:  # fmt: skip
    """q [B, H_kv, G, D] with unit stride in D; out [B, H_kv, G, D] contiguous; the rest as in `sfi_kernels`."""
    heads, page_size = k_pages.shape[1], k_pages.shape[2]
    group, dim = q.shape[2], q.shape[3]
    tuning = tuning or default_tuning(dim, q.element_size(), group)
    block_d = triton.next_power_of_2(dim)
    merge_g = triton.next_power_of_2(group)
    has_packed, has_scores = packed_k is not None, scores is not None
    unused = plan.items
    decode_kernel[(heads, plan.slots)](
        q, k_pages, v_pages, block_tables, lengths, plan.items,
        packed_k if has_packed else q, packed_v if has_packed else q, counts if has_packed else unused,
        recent_start if has_scores else unused,
        out, plan.partial_out, plan.partial_ml, plan.counters,
        scores if has_scores else out, plan.partial_ml if score_lse is None else score_lse,
        scale, softcap or 1.0, sink, q.stride(0), q.stride(1), q.stride(2), block_tables.stride(0),
        *(scores.stride()[:3] if has_scores else (0, 0, 0)), packed_k.shape[2] if has_packed else 0,
        H=heads, G=group, D=dim, PAGE=page_size,
        BLOCK_N=plan.block_n, BLOCK_G=max(16, merge_g), BLOCK_D=block_d, MERGE_G=merge_g,
        MERGE_S=max(1, 8192 // (merge_g * block_d)),
        HAS_PACKED=has_packed, HAS_SCORES=has_scores, HAS_LSE=score_lse is not None, HAS_CAP=bool(softcap),
        UPCAST=interpreting() and q.dtype != torch.float32, PRECISION="ieee",
        num_warps=tuning.warps, num_stages=tuning.stages,
    )  # fmt: skip
