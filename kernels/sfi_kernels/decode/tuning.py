"""Launch choices of the attention kernel, measured on one H200 in bf16 (table in the package's README)."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DecodeTuning:
    """num_warps and num_stages of a launch, programs a multiprocessor in the plan, and the fewest tiles in a slot."""

    warps: int = 4
    stages: int = 3
    programs_per_sm: int = 2
    min_tiles: int = 4


def default_tuning(dim: int, element_size: int) -> DecodeTuning:
    """The stages shrink where a tile of K and V (64 keys of 128 dimensions in 16 bits: 32 KiB) gets larger."""
    return DecodeTuning(stages=3 if dim * element_size <= 256 else 2)


def programs_on(device: torch.device, tuning: DecodeTuning) -> int:
    """How many programs one launch should have; on the CPU (interpreter, reference) a small fixed number."""
    if device.type != "cuda":
        return 32
    return torch.cuda.get_device_properties(device).multi_processor_count * tuning.programs_per_sm
