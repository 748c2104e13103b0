"""Cache write in plain torch."""

import torch


def run(k, v, k_pages, v_pages, block_tables, positions, *, key_norms) -> None:
    """pages[position of token t] = k[t], v[t]; key_norms[h, position] = ‖k‖ of the row as it was stored."""
    page_size = k_pages.shape[2]
    for b, start in enumerate(positions.tolist()):
        if start < 0:
            continue
        at = torch.arange(start, start + k.shape[1], device=k.device)
        page = block_tables[b, at // page_size].long()
        k_pages[page, :, at % page_size] = k[b].to(k_pages.dtype)
        v_pages[page, :, at % page_size] = v[b].to(v_pages.dtype)
        if key_norms is not None:
            wide = torch.float64 if key_norms.dtype == torch.float64 else torch.float32
            stored = k[b].to(k_pages.dtype).to(wide)
            key_norms[b, :, at] = stored.norm(dim=-1).T.to(key_norms.dtype)
