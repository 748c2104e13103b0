"""What a decode plan is: the work list of one step, shared by every layer.

A sequence has T_b tiles of BLOCK_N keys to read per KV head: on the fast route its packed tiles, then the tiles of its
recent window; on the dense route all tiles of its pages. The plan finds the smallest chunk c with

    sum over b of max(1, ceil(T_b / c))  <=  slots

and cuts every sequence into even pieces of at most c tiles. So a batch that mixes one dense sequence with fast ones
spreads the dense one over many programs, and the launch grid (H_kv, slots) stays fixed: it can be captured in a graph
while lengths and routes change on the device.
"""

from dataclasses import dataclass

import torch

# Columns of DecodePlan.items. Tile ranges are half open; `first` is the first slot of the sequence, `low` the first
# absolute position that its page tiles may read (0 on the dense route, recent_start on the fast one).
COLUMNS = ("sequence", "packed_begin", "packed_end", "page_begin", "page_end", "first", "splits", "low")


@dataclass(frozen=True)
class DecodePlan:
    """The work list of a step and the scratch its attention launches share; build it with `sfi_kernels.plan_step`.

    items        int32 [slots, 8]                  one row a slot, columns as in COLUMNS; sequence = -1: idle
    counters     int32 [B, H_kv]                   splits finished; zero between launches
    partial_out  float32 [slots, H_kv, G, D]       unnormalised outputs of split sequences
    partial_ml   float32 [slots, H_kv, 4, G]       running max, sum, and the same two over the candidates only
    block_n      keys in a tile

    Launches that share a plan must run in order (one stream, or ordered by events).
    """

    items: torch.Tensor
    counters: torch.Tensor
    partial_out: torch.Tensor
    partial_ml: torch.Tensor
    block_n: int

    @property
    def slots(self) -> int:
        return self.items.shape[0]


def default_block_n(dim: int) -> int:
    """Keys in a tile: 64, halved for D > 128 so that two tiles in flight still fit a multiprocessor's shared memory."""
    return 64 if dim <= 128 else 32


def allocate_plan(batch: int, heads: int, group: int, dim: int, slots: int, block_n: int, device) -> DecodePlan:
    """An empty plan. `slots` is per KV head; fewer than one a sequence is raised to one a sequence."""
    slots = max(slots, batch)
    f32 = {"dtype": torch.float32, "device": device}
    return DecodePlan(
        items=torch.full((slots, len(COLUMNS)), -1, dtype=torch.int32, device=device),
        counters=torch.zeros((batch, heads), dtype=torch.int32, device=device),
        partial_out=torch.empty((slots, heads, group, dim), **f32),
        partial_ml=torch.empty((slots, heads, 4, group), **f32),
        block_n=block_n,
    )
