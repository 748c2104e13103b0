"""One layer's attention in a decode step, and on slow steps the selector of that layer on a second stream.

Slow step: layer i's attention writes its candidates' logits into ring buffer i mod 4 and records an event; selector,
Top-K and packing of layer i wait for it on a low-priority stream and run under layer i+1's attention; the buffer's own
event lets layer i+4 write into it; one barrier at the end makes the next token see finished memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sfi_kernels import DecodePlan, dense_decode, pack_memory, plan_step, select_scores, sparse_decode, top_k
from sfi_lab.attention.decode import attention_logits
from sfi_lab.runtime.memory_plan import RING
from sfi_lab.runtime.paged import PagedCache
from sfi_lab.runtime.state import BatchState
from sfi_lab.settings import Settings


@dataclass(frozen=True)
class Window:
    """A prompt's last queries, which share the first refresh.

    length: positions cached before the step. queries: by layer [H_q, W - 1, D].
    """

    length: int
    queries: dict[int, Tensor]


class StepAttention:
    """Attention of every layer of a step, for one kind of step at a time: `kind` is "fast", "slow" or "dense".

    `group`: with layer groups, the layers of which group are slow in a slow step; None: all.
    `lap(layer, stage, where)` is called around stages in profile mode only.
    """

    def __init__(
        self,
        cache: PagedCache,
        state: BatchState,
        settings: Settings,
        group_size: int,
        overlap: bool,
        backend: str | None,
    ) -> None:
        self.cache, self.state, self.settings, self.backend = cache, state, settings, backend
        self.kind, self.group = "dense", None
        self.windows: dict[int, Window] = {}  # by sequence, for the first step behind a prompt only
        self.lap: Callable[[int, str, str], None] | None = None
        plan, device = cache.plan, cache.tables.device
        dtype = cache.k_pages[0].dtype
        self._rows = group_size
        self._fast_route = torch.zeros(plan.batch, dtype=torch.int32, device=device)
        self._rest_route = torch.zeros(plan.batch, dtype=torch.int32, device=device)  # of the groups not in turn
        self._packed_len = torch.full((plan.batch,), plan.rows, dtype=torch.int32, device=device)
        self._plans: dict[str, DecodePlan | None] = dict.fromkeys(("dense", "fast", "mixed", "rest"))
        self._ring: list[Tensor] = []
        self._lse: list[Tensor] = []
        if plan.k:
            shape = (plan.batch, plan.kv_heads, group_size, cache.capacity)
            score = torch.float16 if dtype.itemsize == 2 else dtype
            # float16 for 16-bit models: logits need the digits that bfloat16 lacks, and never its range
            self._ring = [torch.zeros(shape, dtype=score, device=device) for _ in range(RING)]
            self._lse = [torch.zeros(shape[:3], device=device) for _ in range(RING)]
        self.side = torch.cuda.Stream(device, priority=0) if overlap and device.type == "cuda" else None
        self._free: list[Any] = []

    def begin(self, kind: str, group: int | None = None) -> None:
        """Starts a step: the work list that every layer's attention reads."""
        self.kind, self.group = kind, group
        self._free = [None] * RING
        state, plan = self.state, self.cache.plan
        shape = {"heads": plan.kv_heads, "group": self._rows, "dim": plan.dim, "element_size": plan.element_size}
        shape |= {"backend": self.backend}
        if kind == "dense":
            self._plans["dense"] = plan_step(state.length, plan=self._plans["dense"], **shape)
            return
        fast = {"packed_len": self._packed_len, "recent_start": state.recent_start}
        if kind == "fast":
            self._plans["fast"] = plan_step(
                state.length, route=self._fast_route, plan=self._plans["fast"], **fast, **shape
            )
        if group is not None:  # layers of other groups read everything only where there is nothing to select
            torch.sub(state.route, state.active, out=self._rest_route)
            self._plans["rest"] = plan_step(
                state.length, route=self._rest_route, plan=self._plans["rest"], **fast, **shape
            )
        if kind == "slow":
            self._plans["mixed"] = plan_step(
                state.length, route=state.route, plan=self._plans["mixed"], **fast, **shape
            )

    def __call__(self, layer: int, q: Tensor, scale: float, softcap: float | None = None) -> Tensor:
        """q [B, H_kv, G, D] after norm and RoPE; the step's own K/V are in the pages. -> [B, H_kv, G, D]."""
        cache, state = self.cache, self.state
        pages = (cache.k_pages[layer], cache.v_pages[layer], cache.tables, state.length)
        how = {"softcap": softcap, "backend": self.backend}
        if self.kind == "dense":
            with self._stage(layer, "attention"):
                return dense_decode(q, *pages, scale, plan=self._plans["dense"], **how)
        packed = cache.packed[layer]
        memory = (packed.k, packed.v, packed.counts, state.recent_start)
        if self.kind == "slow" and (self.group is None or layer % self.settings.layer_groups == self.group):
            return self._slow(layer, q, pages, memory, scale, how)
        route, plan = (self._fast_route, "fast") if self.kind == "fast" else (self._rest_route, "rest")
        with self._stage(layer, "attention"):
            return sparse_decode(q, *pages, *memory, route, scale, plan=self._plans[plan], **how)

    def finish(self) -> None:
        """The barrier at the end of a step: what was selected in it is in place for the next."""
        if self.side is not None and any(self._free):
            torch.cuda.current_stream().wait_stream(self.side)

    # slow steps ----------------------------------------------------------------------------------------------------

    def _slow(self, layer: int, q: Tensor, pages: tuple, memory: tuple, scale: float, how: dict) -> Tensor:
        slot = layer % RING
        if self._free[slot] is not None:
            torch.cuda.current_stream().wait_event(self._free[slot])
        scores, lse = self._ring[slot], self._lse[slot]
        with self._stage(layer, "attention"):
            out = sparse_decode(
                q, *pages, *memory, self.state.route, scale, plan=self._plans["mixed"], scores=scores, score_lse=lse,
                sink=self.settings.sink, **how,
            )  # fmt: skip
        if self.windows:
            for sequence, window in self.windows.items():
                self.select(
                    layer, self._with_window(layer, sequence, window, scores, scale, how["softcap"]), None, sequence
                )
            return out
        if self.side is None:
            self.select(layer, scores, lse)
            return out
        self.side.wait_event(torch.cuda.current_stream().record_event())
        with torch.cuda.stream(self.side):
            self.select(layer, scores, lse)
            self._free[slot] = self.side.record_event()
        return out

    def _with_window(
        self, layer: int, sequence: int, window: Window, scores: Tensor, scale: float, softcap: float | None
    ) -> Tensor:
        """The step's own logits and those of the prompt's last queries, [1, H_kv, G · W, J]; -inf where a row may not look."""
        sink, n = self.settings.sink, window.length
        end = max(sink, n + 1 - self.settings.recent)
        q = window.queries[layer]
        kv_heads, rows = self.cache.plan.kv_heads, q.shape[1]
        k = self.cache.rows(layer, sequence, end)[0][:, sink:]
        past = attention_logits(q.reshape(kv_heads, -1, q.shape[-1]), k, scale, softcap)
        first = n - rows
        if end > first + 1:
            own = torch.arange(first, n, device=q.device).repeat(past.shape[1] // rows)
            past = past.masked_fill(torch.arange(sink, end, device=q.device)[None] > own[:, None], -torch.inf)
        own_logits = scores[sequence, :, :, : end - sink].to(past.dtype)
        return torch.cat([past, own_logits], dim=1)[None]

    def select(self, layer: int, logits: Tensor, lse: Tensor | None, sequence: int | None = None) -> None:
        """Selector, Top-K and packing of one layer, for the active sequences (or one sequence alone).

        logits [B, H_kv, R, J]; lse [B, H_kv, R] or None.
        """
        cache, state, sink = self.cache, self.state, self.settings.sink
        part = slice(None) if sequence is None else slice(sequence, sequence + 1)
        packed, active, candidates = cache.packed[layer], state.active[part], state.candidates[part]
        norms = cache.norms[layer][part, :, sink : sink + logits.shape[3]]
        chosen, backend = packed.positions[part], self.backend
        how = self.settings.selector(logits.shape[2])
        with self._stage(layer, "selector"):
            z = select_scores(logits, norms, candidates, lse=lse, active=active, backend=backend, **how)
        with self._stage(layer, "topk"):
            top_k(z, candidates, cache.plan.k, first=sink, active=active, out=chosen, backend=backend)
        with self._stage(layer, "pack"):
            pack_memory(
                chosen, cache.k_pages[layer], cache.v_pages[layer], cache.tables[part], state.length[part], packed.k[part],
                packed.v[part], packed.counts[part], sink=sink, active=active, backend=backend,
            )  # fmt: skip

    @contextmanager
    def _stage(self, layer: int, name: str) -> Iterator[None]:
        if self.lap:
            self.lap(layer, name, "begin")
        yield
        if self.lap:
            self.lap(layer, name, "end")
