"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch
import transformers


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


def cpu_name() -> str:
    """The processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
