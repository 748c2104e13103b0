"""One core for the kernel while a slider moves: the server and the browser want the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_core() -> Iterator[None]:
    """torch on one thread inside the block. Arrays of one layer take milliseconds; a second thread that the browser holds up
    makes every operation wait for it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
