"""Launch choices of the attention kernel, measured on one H200 in bf16 (table in the package's README)."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DecodeTuning:
    """num_warps and num_stages of a launch; programs a multiprocessor (all dense, or routed); fewest tiles in a slot."""

    warps: int = 2
    stages: int = 3
    programs_per_sm: int = 3
    routed_programs_per_sm: int = 2
    min_tiles: int = 4


def default_tuning(dim: int, element_size: int, group: int = 1) -> DecodeTuning:
    """Two warps a program where the accumulator (group padded to 16, D to a power of two) leaves them registers."""
    if element_size == 2 and dim <= 128 and group <= 16:
        return DecodeTuning()
    return DecodeTuning(warps=4, stages=2, programs_per_sm=2)


def programs_on(device: torch.device, tuning: DecodeTuning, routed: bool) -> int:
    """How many programs one launch should have; on the CPU (interpreter, reference) a small fixed number."""
    if device.type != "cuda":
        return 32
    per_sm = tuning.routed_programs_per_sm if routed else tuning.programs_per_sm
    return torch.cuda.get_device_properties(device).multi_processor_count * per_sm
