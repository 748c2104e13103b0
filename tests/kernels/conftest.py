"""Without a GPU the kernels run in Triton's CPU interpreter, which must be asked for before triton is imported."""

import os
import sys

import numpy as np
import pytest
import torch

INTERPRET = not torch.cuda.is_available()

if INTERPRET:
    already = os.environ.get("TRITON_INTERPRET")
    if "triton" in sys.modules and not already:
        raise pytest.UsageError(
            "triton was imported before tests/kernels asked for its interpreter; run this folder in a process of its own"
        )
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401  its own helpers are built for the interpreter at import

    for name in ("plan", "dense", "sparse", "selector", "topk", "pack", "cache"):
        __import__(f"sfi_kernels.{name}.triton")
    if already is None:  # other rooms' tests in this process keep the plain reference
        del os.environ["TRITON_INTERPRET"]


@pytest.fixture(autouse=True)
def triton_runs(monkeypatch):
    """The dispatcher chooses Triton in this folder, compiled or interpreted; one thread is enough for the interpreter."""
    if INTERPRET:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        torch.set_num_threads(1)
    torch.manual_seed(20)
    with np.errstate(all="ignore"):  # log 0 and exp(-inf) are meant, as on the device
        yield
