"""Without a GPU the kernels run in Triton's CPU interpreter, which must be asked for before triton is imported."""

import importlib
import os
import sys

import numpy as np
import pytest
import torch

INTERPRET = not torch.cuda.is_available()

if INTERPRET:
    asked = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    if not asked:
        # Model imports elsewhere may have loaded triton already, with its helpers (tl.sum, ..) built for a GPU. They are
        # built when triton is imported, so load it afresh; whoever holds the old modules keeps them.
        for name in [n for n in sys.modules if f"{n}.".startswith("triton.") and not n.startswith("triton._C")]:
            del sys.modules[name]
    for name in ("plan", "dense", "sparse", "selector", "topk", "pack", "cache"):
        importlib.import_module(f"sfi_kernels.{name}.triton")
    if not asked:  # other rooms' tests in this process keep the plain reference
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
