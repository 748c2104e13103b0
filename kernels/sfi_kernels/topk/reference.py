"""Top-K in plain torch: stable descending sort, first K, sorted by position. Equal scores: the lower position wins."""

import torch


def run(scores, n_candidates, k, *, first, active, out) -> None:
    """Positions (candidate index + first) of the min(K, J) best of each row into out [B, H_kv, K]; -1 behind them."""
    for b, n in enumerate(n_candidates.tolist()):
        if active is not None and not int(active[b]):
            continue
        chosen = min(k, n)
        order = torch.argsort(scores[b, :, :n], dim=-1, descending=True, stable=True)[:, :chosen]
        out[b, :, :chosen] = (order.sort(-1).values + first).to(out.dtype)
        out[b, :, chosen:] = -1
