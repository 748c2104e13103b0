"""Clocks for benchmarks: medians, warm-up outside, nothing measured inside the work."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch


def median_ms(work: Callable[[], Any], device: torch.device, repeats: int = 10, warm_ups: int = 3) -> float:
    """Median milliseconds of one call."""
    return statistics.median(each_ms(work, device, repeats, warm_ups))


def each_ms(work: Callable[[], Any], device: torch.device, repeats: int, warm_ups: int = 3) -> list[float]:
    """Milliseconds of each of `repeats` calls queued one behind the other."""
    for _ in range(warm_ups):
        work()
    if device.type != "cuda":
        marks = [time.perf_counter()]
        for _ in range(repeats):
            work()
            marks.append(time.perf_counter())
        return [(b - a) * 1e3 for a, b in itertools.pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize(device)
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize(device)
    return [a.elapsed_time(b) for a, b in itertools.pairwise(events)]


def total_ms(work: Callable[[], Any], device: torch.device) -> float:
    """Milliseconds from the first to the last thing that one call queues."""
    return each_ms(work, device, 1, 0)[0]


def graphed_ms(calls: Sequence[Callable[[], Any]], device: torch.device, repeats: int = 10) -> float:
    """Median milliseconds of one of the calls, all captured in one graph (GPU) so that launching costs little.

    Give calls over different buffers where one buffer would fit the cache.
    """
    if device.type != "cuda":
        return median_ms(lambda: [call() for call in calls], device, repeats, 1) / len(calls)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    return median_ms(graph.replay, device, repeats) / len(calls)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie (nearest rank)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
