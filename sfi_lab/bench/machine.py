"""What a figure was measured on."""

from __future__ import annotations

import os
import platform

import torch
import transformers

from sfi_lab.processor import cpu_name


def machine(device: torch.device | str = "cpu") -> dict[str, str | int]:
    """Device, processor, threads and versions, to stand beside a measured figure."""
    device = torch.device(device)
    facts = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cpu": cpu_name(),
        "cpus": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        import triton

        facts["triton"] = triton.__version__
    return facts
