"""Dense decode on the device: the shared attention kernel without its packed part."""

from ..decode.launch import launch


def run(
    q, k_pages, v_pages, block_tables, lengths, scale, *,
    softcap, scores, score_lse, sink, recent_start, plan, out, tuning=None,
) -> None:  # fmt: skip
    """out = softmax(scale q k^T) v over positions 0 .. length - 1; a plan with dense routes only."""
    launch(
        q, k_pages, v_pages, block_tables, lengths, scale, softcap=softcap, plan=plan, out=out,
        scores=scores, score_lse=score_lse, sink=sink, recent_start=recent_start, tuning=tuning,
    )  # fmt: skip
