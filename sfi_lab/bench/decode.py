"""Decode steps of a whole model through the engine: fast, slow and dense steps, and the run they make together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sfi_lab.bench.bound import against, kv_bytes, read_rate, weight_bytes
from sfi_lab.bench.configs import random_model
from sfi_lab.bench.machine import machine
from sfi_lab.bench.timing import each_ms, percentile, total_ms
from sfi_lab.loading.spec import ModelSpec
from sfi_lab.runtime.engine import Engine, EngineOptions
from sfi_lab.settings import Settings

_NEVER = 1 << 28  # a period no run reaches


@dataclass(frozen=True)
class DecodeCase:
    """One benchmark: what is decoded, and how long each arm runs."""

    config: str = "qwen3-0.6b"
    context: int = 131072
    batch: int = 8
    k: int = 2048
    recent: int = 256
    refresh: tuple[int, ...] = (32, 20, 64)
    steps: int = 64
    slow_steps: int = 16
    device: str = "cuda"
    dtype: str = "bfloat16"
    options: EngineOptions = field(default_factory=EngineOptions)


def measure(case: DecodeCase, sdpa: bool = True, without_overlap: bool = True) -> list[dict[str, Any]]:
    """Every arm in one process over one cache of random K/V; one row an arm.

    Arms: "dense" (our kernel, `Settings.dense()`'s own step), "dense sdpa" (torch's attention in the same step over
    contiguous K/V: the backend it chooses, and on a GPU its flash kernel by name), "fast", "slow", "slow, no overlap", and "sfi" for each refresh interval: a slow step every M-th,
    nothing read back. Milliseconds are a step's, medians.
    """
    device, dtype = torch.device(case.device), getattr(torch, case.dtype)
    room = case.context + 8 * max(case.refresh, default=1) + 4 * case.steps
    model = random_model(case.config, room, device, dtype)
    settings = Settings.paper(k=case.k, recent=case.recent, trigger="period", period=_NEVER, t_max=0)
    engine = Engine(model, ModelSpec.from_model(model), settings, case.batch, room, options=case.options)
    fill_random(engine, case.context)
    bench = _Bench(case, engine, weight_bytes(model), read_rate(device))
    rows = [bench.dense()]
    if sdpa:
        rows.append(bench.sdpa())
        if device.type == "cuda" and dtype != torch.float32:
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                rows.append(bench.sdpa("dense sdpa flash"))
    rows += [bench.fast(), bench.slow("slow")]
    rows += [bench.sfi(every) for every in case.refresh]
    if without_overlap and engine.attention.side is not None:
        rows.append(bench.no_overlap())
    dense = rows[0]["ms"]
    return [row | {"over_dense": round(dense / row["ms"], 3)} for row in rows]


@torch.inference_mode()
def fill_random(engine: Engine, length: int) -> None:
    """Captures the graphs, then makes every cached position random: reading a prompt of this length would only cost time."""
    engine.prepare()
    cache = engine.cache
    for layer in range(cache.n_layers):
        cache.k_pages[layer].normal_()
        cache.v_pages[layer].normal_()
        heads = cache.plan.kv_heads
        for b in range(cache.plan.batch):
            k = cache.k_pages[layer][cache.tables[b].long()]
            norms = torch.linalg.vector_norm(k, dim=-1, dtype=torch.float32).transpose(0, 1).reshape(heads, -1)
            cache.norms[layer][b, :, : norms.shape[1]] = norms
    restart(engine, length)


@torch.inference_mode()
def restart(engine: Engine, length: int) -> None:
    """All sequences at `length` cached positions, the next step being the first."""
    engine.lengths = [length] * engine.plan.batch
    engine.start(torch.randn(engine.plan.batch, engine.spec.vocab_size, device=engine.device))
    engine.wait()


class _Bench:
    """The arms; each leaves the engine ready for the next."""

    def __init__(self, case: DecodeCase, engine: Engine, weights: int, rate: float) -> None:
        self.case, self.engine, self.weights, self.rate = case, engine, weights, rate
        self.device = engine.device
        self._machine = machine(self.device)

    def dense(self) -> dict[str, Any]:
        restart(self.engine, self.case.context)
        times = each_ms(lambda: self.engine.step("dense"), self.device, self.case.slow_steps)
        return self._row("dense", times, self.case.context)

    def sdpa(self, arm: str = "dense sdpa") -> dict[str, Any]:
        engine, ours = self.engine, self.engine.attention
        engine.attention = _SdpaAttention(engine, self.case.context)
        try:
            if engine.graphs is not None:
                engine._harmless()
                engine.graphs.drop("sdpa")
                engine.graphs.capture("sdpa", None, lambda: engine._body("dense", None))
            restart(engine, self.case.context)
            kind = "dense" if engine.graphs is None else "sdpa"
            times = each_ms(lambda: engine.step(kind), self.device, self.case.slow_steps)
        finally:
            engine.attention = ours
        return self._row(arm, times, self.case.context)

    def fast(self) -> dict[str, Any]:
        self._rhythm(_NEVER)
        self.engine.step("slow")
        times = each_ms(lambda: self.engine.step("fast"), self.device, self.case.steps)
        return self._row("fast", times, self._kept)

    def slow(self, arm: str) -> dict[str, Any]:
        self._rhythm(1)
        times = each_ms(lambda: self.engine.step("slow"), self.device, self.case.slow_steps)
        return self._row(arm, times, self.case.context, 1)

    def no_overlap(self) -> dict[str, Any]:
        engine = self.engine
        engine.attention.side, side = None, engine.attention.side
        engine.graphs.drop("slow")
        engine.prepare(["slow"])
        row = self.slow("slow, no overlap")
        engine.attention.side = side
        engine.graphs.drop("slow")
        return row

    def sfi(self, every: int) -> dict[str, Any]:
        """Whole cycles of one slow and M - 1 fast steps, from the slow one on; the routes are the device's."""
        engine, cycles = self.engine, max(2, -(-self.case.steps // every))
        kinds = ["slow" if i % every == 0 else "fast" for i in range(cycles * every)]

        def run() -> None:
            for kind in kinds:
                engine.step(kind)

        runs = []
        for _ in range(3):
            self._rhythm(every)
            runs.append(total_ms(run, self.device) / len(kinds))
        share = self._slow_share(len(kinds))
        keys = share * self.case.context + (1 - share) * self._kept
        return self._row(f"sfi, refresh every {every}", runs, int(keys), every) | {"slow_share": round(share, 4)}

    def _slow_share(self, steps: int) -> float:
        """As the device recorded it, of the last `steps` steps: the host's schedule must be what really happened."""
        made = int(self.engine.state.flags[1])
        reasons = self.engine.state.history[made - steps : made, 1]
        return float((reasons != 0).float().mean())

    @property
    def _kept(self) -> int:
        return self.engine.plan.rows + self.case.recent

    def _rhythm(self, every: int) -> None:
        self.engine.change_rhythm(period=every)
        restart(self.engine, self.case.context)

    def _row(self, arm: str, times: Sequence[float], keys: int, refresh: int | None = None) -> dict[str, Any]:
        case, ms = self.case, statistics.median(times)
        moved = self.weights + kv_bytes(self.engine.plan, keys)
        cuda = self.device.type == "cuda"
        return {
            "bench": "decode", "config": case.config, "arm": arm, "context": case.context, "batch": case.batch,
            "k": self.engine.plan.k, "recent": case.recent, "refresh": refresh, "slow_share": None, "keys_read": keys,
            "ms": round(ms, 4), "ms_p50": round(percentile(times, 0.5), 4), "ms_p99": round(percentile(times, 0.99), 4),
            "samples": len(times), "tokens_per_second": round(case.batch / ms * 1e3, 1), **against(ms, moved, self.rate),
            "read_rate_gb_per_s": round(self.rate, 1),
            "gpu_memory_gb": round(torch.cuda.max_memory_allocated(self.device) / 1e9, 2) if cuda else None,
            "path": self.engine.path, "captured": self.engine.graphs is not None, "kv": "random, not read from a prompt",
            "dtype": case.dtype, **self._machine,
        }  # fmt: skip


class _SdpaAttention:
    """torch's SDPA over contiguous K/V of one layer, which every layer reads: as many bytes, none of our kernels."""

    def __init__(self, engine: Engine, length: int) -> None:
        plan = engine.plan
        shape = (plan.batch, plan.kv_heads, length, plan.dim)
        size = plan.batch * plan.kv_heads * length * plan.dim
        cache = engine.cache
        self._k, self._v = (x[0].view(-1)[:size].view(shape) for x in (cache.k_pages, cache.v_pages))
        self.windows: dict[int, Any] = {}

    def begin(self, kind: str, group: int | None) -> None:
        """Nothing to plan."""

    def finish(self) -> None:
        """Nothing to wait for."""

    def __call__(self, layer: int, q: Tensor, scale: float, softcap: float | None = None) -> Tensor:
        """q [B, H_kv, G, D]: the group's heads as rows of one KV head, so no head is repeated."""
        return F.scaled_dot_product_attention(q, self._k, self._v, scale=scale)
