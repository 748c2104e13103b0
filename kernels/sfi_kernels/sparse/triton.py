"""Sparse decode on the device: one launch of the shared attention kernel for a batch on mixed routes."""

from ..decode.launch import launch


def run(
    q, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, recent_start, route, scale, *,
    softcap, scores, score_lse, sink, plan, out, tuning=None,
) -> None:  # fmt: skip
    """out = softmax(scale q k^T) v over packed ∪ [recent_start, length) or all positions; the plan holds the routes."""
    del route  # already in the plan
    launch(
        q, k_pages, v_pages, block_tables, lengths, scale, softcap=softcap, plan=plan, out=out,
        scores=scores, score_lse=score_lse, sink=sink, recent_start=recent_start,
        packed_k=packed_k, packed_v=packed_v, counts=counts, tuning=tuning,
    )  # fmt: skip
