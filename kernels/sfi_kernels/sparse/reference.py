"""Sparse decode in plain torch: packed rows and the recent window side by side, or all pages, as the route says."""

import torch

from ..dense.reference import compute_dtype, gather_pages, logits_of, write_scores


def run(
    q, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, recent_start, route, scale, *,
    softcap, scores, score_lse, sink, plan, out, tuning=None,
) -> None:  # fmt: skip
    """out = softmax(scale q k^T) v over packed ∪ [recent_start, length) where route is 0, over all positions where 1."""
    del plan, tuning
    dtype = compute_dtype(q)
    starts, routes = recent_start.tolist(), route.tolist()
    for b, length in enumerate(lengths.tolist()):
        k, v = (gather_pages(x, block_tables[b], length).to(dtype) for x in (k_pages, v_pages))
        if routes[b]:
            s = logits_of(q[b].to(dtype), k, scale, softcap)
            out[b] = (torch.softmax(s, -1) @ v).to(out.dtype) if length else 0
            if scores is not None:
                write_scores(s[..., sink : max(sink, min(starts[b], length))], b, scores, score_lse)
            continue
        for h, count in enumerate(counts[b].tolist()):
            ks, vs = (
                torch.cat([packed[b, h, :count].to(dtype), paged[h, starts[b] :]])
                for packed, paged in ((packed_k, k), (packed_v, v))
            )
            s = logits_of(q[b, h : h + 1].to(dtype), ks[None], scale, softcap)
            out[b, h] = (torch.softmax(s[0], -1) @ vs).to(out.dtype) if len(ks) else 0
        if score_lse is not None:
            score_lse[b] = float("-inf")
