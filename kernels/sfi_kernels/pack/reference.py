"""Packing in plain torch: index the pages position by position."""

import torch


def run(positions, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, *, sink, active) -> None:
    """packed[h] = K/V of positions 0 .. min(sink, length) - 1, then of positions[h]; counts[h] = rows written."""
    page_size = k_pages.shape[2]
    for b, length in enumerate(lengths.tolist()):
        if active is not None and not int(active[b]):
            continue
        sinks = torch.arange(min(sink, length), device=positions.device)
        for h in range(positions.shape[1]):
            chosen = positions[b, h]
            at = torch.cat([sinks, chosen[chosen >= 0].long()])
            page = block_tables[b, at // page_size].long()
            packed_k[b, h, : len(at)] = k_pages[page, h, at % page_size]
            packed_v[b, h, : len(at)] = v_pages[page, h, at % page_size]
            counts[b, h] = len(at)
