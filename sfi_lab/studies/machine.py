"""Where numbers were measured: processor, device, versions, and the bytes a second its memory gives."""

from __future__ import annotations

import os
import platform
import time

import torch
import transformers

import sfi_lab
from sfi_lab.processor import cpu_name


def machine(device: torch.device | str = "cpu") -> dict[str, str | int]:
    """Facts that a report carries; no host or user names."""
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sfi_lab": sfi_lab.__version__,
    }


def copy_bandwidth(device: torch.device | str = "cpu", megabytes: int = 256, rounds: int = 5) -> float:
    """Bytes a second of a large copy, read and write counted, best of `rounds`: what `memory_bound` is held against."""
    device = torch.device(device)
    source = torch.ones(megabytes * 250_000, dtype=torch.float32, device=device)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(rounds + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        began = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * source.numel() * source.itemsize / best
