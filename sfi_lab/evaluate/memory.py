"""Batches that don't fit are halved, on a GPU and on a CPU, until they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sfi_lab.decoder.batch import Job, generate_together
from sfi_lab.decoder.result import Result


class Batcher:
    """Decodes jobs in batches of at most `size`, which halves for good whenever memory runs out."""

    def __init__(self, lab: Any, size: int, say: Callable[[str], None] | None = None) -> None:
        self.lab, self.size, self._say = lab, size, say or (lambda line: None)

    def generate(self, jobs: Sequence[Job]) -> list[Result]:
        """The results in the jobs' order, without their sessions. A single job that doesn't fit raises what ran out."""
        results: list[Result] = []
        while len(results) < len(jobs):
            part = jobs[len(results) : len(results) + self.size]
            try:
                done = generate_together(self.lab, part)
                for result in done:
                    result.session = None  # it holds the run's caches, which the next batch needs the room of
                results += done
                continue
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error) or len(part) == 1:
                    raise
            # outside the handler: the exception held the batch's tensors
            self.size = len(part) // 2
            self._say(f"out of memory with {len(part)} runs at once; going on with {self.size}")
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return results


def out_of_memory(error: BaseException) -> bool:
    """Whether this is an allocator's way to say that memory ran out."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)  # torch's CPU allocator
