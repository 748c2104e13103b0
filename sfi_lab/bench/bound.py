"""What memory alone allows: bytes that a step or kernel must move over the rate at which this device reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sfi_lab.bench.timing import median_ms

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from sfi_lab.runtime.memory_plan import MemoryPlan


def read_rate(device: torch.device) -> float:
    """GB/s at which a large tensor is read (a maximum over it, 4 GiB on a GPU, 64 MiB on a CPU); measured here and now."""
    size = 2**29 if device.type == "cuda" else 2**23
    x = torch.ones(size, dtype=torch.int64, device=device)
    return x.nbytes / median_ms(lambda: x.amax(), device, repeats=10) / 1e6


def weight_bytes(model: PreTrainedModel) -> int:
    """Bytes of the weights that a decode step reads: all but the embedding table, where the output head has its own."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return total if embedding is head else total - embedding.numel() * embedding.element_size()


def kv_bytes(plan: MemoryPlan, keys: int) -> int:
    """Bytes of K and V of `keys` positions of every sequence, layer and KV head."""
    return 2 * plan.layers * plan.batch * plan.kv_heads * keys * plan.dim * plan.element_size


def against(ms: float, moved: int, rate: float) -> dict[str, Any]:
    """The bound of `moved` bytes at `rate` GB/s beside a measured time."""
    bound = moved / rate / 1e6
    return {
        "bytes": moved,
        "bound_ms": round(bound, 5),
        "bound_share": round(bound / ms, 4),
        "gb_per_s": round(moved / ms / 1e6, 1),
    }
