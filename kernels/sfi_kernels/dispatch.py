"""Which implementation runs: Triton on CUDA (or under Triton's interpreter), the plain-torch reference elsewhere."""

import importlib
import importlib.util
import os
from types import ModuleType

import torch

BACKENDS = ("triton", "reference")


def interpreting() -> bool:
    """True when Triton's CPU interpreter was asked for (`TRITON_INTERPRET=1`, set before the first kernel is imported)."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on")


def backend_for(x: torch.Tensor, backend: str | None = None) -> str:
    """Name the backend for tensors like `x`: the caller's choice, else Triton where it can run, else the reference.

    float64 always takes the reference: it is the yardstick, not a speed path.
    """
    if backend is not None:
        if backend not in BACKENDS:
            raise ValueError(f"backend is {backend!r}; allowed are {', '.join(BACKENDS)} or None (chosen by device)")
        return backend
    if x.dtype == torch.float64 or not (x.is_cuda or interpreting()):
        return "reference"
    return "triton" if importlib.util.find_spec("triton") is not None else "reference"


def implementation(operation: str, x: torch.Tensor, backend: str | None = None) -> ModuleType:
    """The module of `operation` (a folder's name) that should handle `x`; Triton is imported only when it is chosen."""
    return importlib.import_module(f"sfi_kernels.{operation}.{backend_for(x, backend)}")
