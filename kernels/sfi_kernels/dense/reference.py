"""Dense decode in plain torch: gather each sequence's pages, one softmax, no splits."""

import torch


def gather_pages(pages: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """The first `length` rows of one sequence. pages [n_pages, H_kv, page_size, D], table [max_pages] -> [H_kv, n, D]."""
    page_size = pages.shape[2]
    used = table[: -(-length // page_size)].long()
    return pages[used].transpose(0, 1).flatten(1, 2)[:, :length]


def logits_of(q: torch.Tensor, k: torch.Tensor, scale: float, softcap: float) -> torch.Tensor:
    """scale * q k^T, capped if asked. q [H_kv, G, D], k [H_kv, n, D] -> [H_kv, G, n]."""
    s = (q @ k.transpose(1, 2)) * scale
    return softcap * torch.tanh(s / softcap) if softcap else s


def compute_dtype(x: torch.Tensor) -> torch.dtype:
    """float64 stays float64; everything else is computed in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def run(
    q, k_pages, v_pages, block_tables, lengths, scale, *,
    softcap, scores, score_lse, sink, recent_start, plan, out, tuning=None,
) -> None:  # fmt: skip
    """out = softmax(scale q k^T) v over positions 0 .. length - 1; an empty sequence gives zeros."""
    del plan, tuning  # a work list changes nothing here
    dtype = compute_dtype(q)
    for b, length in enumerate(lengths.tolist()):
        k, v = (gather_pages(x, block_tables[b], length).to(dtype) for x in (k_pages, v_pages))
        s = logits_of(q[b].to(dtype), k, scale, softcap)
        out[b] = (torch.softmax(s, -1) @ v).to(out.dtype) if length else 0
        if scores is not None:
            end = max(sink, min(int(recent_start[b]), length))
            write_scores(s[..., sink:end], b, scores, score_lse)


def write_scores(candidates: torch.Tensor, b: int, scores: torch.Tensor, score_lse: torch.Tensor | None) -> None:
    """Logits of the candidates [H_kv, G, J_b] into row b of scores [B, H_kv, G, J], their log-sum-exp beside them."""
    scores[b, ..., : candidates.shape[-1]] = candidates.to(scores.dtype)
    if score_lse is not None:
        score_lse[b] = torch.logsumexp(candidates, -1) if candidates.shape[-1] else float("-inf")
