"""Captured CUDA graphs of steps, one a kind (and layer group), sharing one memory pool."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Graphs:
    """Captures a step's body on a high-priority stream; replays it on the caller's.

    The body must leave no trace of being run a few times before its capture (Triton and cuBLAS set themselves up then).
    """

    def __init__(self, device: torch.device, generator: torch.Generator, warm_ups: int = 2) -> None:
        self._stream = torch.cuda.Stream(device, priority=-1)
        self._pool = torch.cuda.graph_pool_handle()
        self._generator, self._warm_ups = generator, warm_ups
        self._captured: dict[tuple[str, int | None], tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def has(self, kind: str, group: int | None = None) -> bool:
        """True if this kind of step was captured."""
        return (kind, group) in self._captured

    def drop(self, kind: str) -> None:
        """Forgets the graphs of a kind."""
        self._captured = {key: value for key, value in self._captured.items() if key[0] != kind}

    @torch.inference_mode()
    def capture(self, kind: str, group: int | None, body: Callable[[], Tensor]) -> None:
        """Runs the body a few times, then records it; what it returns is the tensor that replays write."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(self._warm_ups):
                body()
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        # thread_local: a run in another thread may wait for its own step meanwhile
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            logits = body()
        self._captured[kind, group] = (graph, logits)
        torch.cuda.current_stream().wait_stream(self._stream)

    def replay(self, kind: str, group: int | None = None) -> Tensor:
        """Queues the step; its output tensor, valid until the next replay."""
        graph, logits = self._captured[kind, group]
        graph.replay()
        return logits
