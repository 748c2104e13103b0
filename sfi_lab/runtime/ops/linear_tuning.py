"""Launch choices of the skinny linear kernel, measured on one H200 in bf16 with 6 and 8 rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearTuning:
    """Rows of W a program, columns of K a warp and tile, warps and stages."""

    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 4


# (outputs, K, gated) -> the fastest of a sweep over 8 to 32 rows, 64 and 128 columns, 2 to 8 warps, 3 to 6 stages
_MEASURED: dict[tuple[int, int, bool], LinearTuning] = {
    (4096, 1024, False): LinearTuning(32, 128, 4, 4),
    (1024, 2048, False): LinearTuning(8, 128, 8, 4),
    (3072, 1024, True): LinearTuning(8, 64, 4, 5),
    (1024, 3072, False): LinearTuning(8, 128, 8, 4),
    (6144, 2560, False): LinearTuning(16, 128, 4, 3),
    (2560, 4096, False): LinearTuning(8, 128, 4, 4),
    (9728, 2560, True): LinearTuning(16, 64, 2, 6),
    (2560, 9728, False): LinearTuning(8, 128, 4, 4),
    (151936, 1024, False): LinearTuning(32, 64, 2, 5),
    (151936, 2560, False): LinearTuning(32, 64, 2, 5),
}


def tuning_for(n: int, k: int, gated: bool) -> LinearTuning:
    """The measured choice for a shape, or a near one: as many programs as multiprocessors where the output allows it."""
    if (n, k, gated) in _MEASURED:
        return _MEASURED[n, k, gated]
    if n >= 32768:
        return LinearTuning(32, 64, 4, 3)
    if gated:
        return LinearTuning(32 if n < 8192 else 16, 64, 4, 4)
    return LinearTuning(32 if n >= 2560 else 16, 128, 4, 4)
