"""Launch details shared by the kernels: masks that leave loads wide, and chains of dependent launches.

A load masked by `j < n` with n read on the device can't be widened to 16 bytes a thread: the compiler must assume that
n cuts through the middle of four neighbours. Where rows are a multiple of 16 elements long, reading up to the next
multiple of 16 is safe; the surplus is dropped in registers.

The kernels of one operation follow each other on one stream. On Hopper and later each may be set up while the one
before it still runs (programmatic dependent launch); it waits for that one's results before its first access.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import cuda

from .dispatch import interpreting


@triton.jit
def round_up(n, ROUND: tl.constexpr):
    """n rounded up to a multiple of ROUND, in a form whose divisibility the compiler can see."""
    return (n + (ROUND - 1)) // ROUND * ROUND


def load_granularity(*tensors: torch.Tensor) -> int:
    """16 where the last dimension and all other strides are multiples of 16 in every tensor that sets a limit, else 1.

    The first tensor's last dimension bounds n; the others are at least as long there.
    """
    width = tensors[0].shape[-1]
    aligned = width % 16 == 0 and all(stride % 16 == 0 for x in tensors for stride in x.stride()[:-1])
    return 16 if aligned else 1


@triton.jit
def after_previous(CHAIN: tl.constexpr):
    """First statement of a chained kernel: wait for the launch before it, let the one behind it be set up."""
    if CHAIN:
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()


def chain(device: torch.device) -> tuple[dict, dict]:
    """Launch arguments (of an operation's first kernel, of those behind it) on this device."""
    if interpreting() or torch.version.cuda is None or torch.cuda.get_device_capability(device) < (9, 0):
        return {"CHAIN": False}, {"CHAIN": False}
    return {"CHAIN": True}, {"CHAIN": True, "launch_pdl": True}
