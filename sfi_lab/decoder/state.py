"""One sequence's state: full caches, packed memories, the step's plan, and what attention does with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.decode import attention_logits, dense_decode, sparse_decode
from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.decoder.clock import StageClock
from sfi_lab.memory import PackedMemory, recent_start
from sfi_lab.selector import select
from sfi_lab.settings import Settings
from sfi_lab.trace import Recorder
from sfi_lab.trace.support import Attended
from sfi_lab.trigger.plan import PROMPT, StepPlan


class DecoderState:
    """Everything one sequence carries from step to step; implements the router's `StepAttention`.

    Positions are absolute; the newest is the query's own. Layers that keep a window of their own ("sliding",
    "chunked") never become sparse: their attention stays the model's.
    """

    def __init__(self, layer_kinds: Sequence[str], settings: Settings) -> None:
        self.settings = settings
        self.full_layers = [layer for layer, kind in enumerate(layer_kinds) if kind == "full"]
        self._is_full = [kind == "full" for kind in layer_kinds]
        self.cache = SequenceCache(len(layer_kinds))
        self.packed: dict[int, PackedMemory] = {}
        self.plan: StepPlan = PROMPT
        self.step = 0
        self.keys_read: dict[int, int] = {}
        self.recorder: Recorder | None = None
        self.clock: StageClock | None = None
        self._sliding_start = 0  # first position of the recent window at this step
        self._pinned_start: dict[int, int] = {}  # the same at each layer's last refresh
        self._window: dict[int, Tensor] = {}  # the prompt's last W - 1 queries [H_q, W - 1, D]
        self._queries: dict[int, Tensor] | None = {} if settings.trigger == "drift" else None
        self._refresh_queries: dict[int, Tensor] = {}

    # one step ------------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Positions cached."""
        return self.cache.length()

    def repair(self) -> None:
        """After an interrupted forward: cuts every layer back to the positions that all layers have."""
        self.cache.truncate(min(cache.length for cache in self.cache.full))

    def begin(self, plan: StepPlan, step: int) -> None:
        """Sets the plan of the step that will append one position."""
        self._sliding_start = recent_start(self.length + 1, self.settings.sink, self.settings.recent)
        self.plan, self.step = plan, step
        self.keys_read = {}

    def end(self) -> None:
        """Forgets what only the first decode step after a prompt may use."""
        self._window = {}

    def forget_selection(self) -> None:
        """Drops the packed memories (a new prompt was read, or the conversation was cut)."""
        self.packed = {}
        self._refresh_queries = {}

    def recent_start(self, layer: int) -> int:
        """First position of the recent window that a fast step reads in this layer."""
        pinned = self.settings.recent_mode == "pinned"
        return self._pinned_start.get(layer, self._sliding_start) if pinned else self._sliding_start

    @property
    def mean_keys_read(self) -> float:
        """Keys read by the last step, mean over the layers with full attention and their KV heads.

        A model without such layers reads all that its own windows show it: every key available counts as read.
        """
        return sum(self.keys_read.values()) / len(self.keys_read) if self.keys_read else float(self.length)

    def track_queries(self) -> None:
        """Keeps queries so that `drift` can be told (always on for the drift trigger and while recording)."""
        self._queries = {} if self._queries is None else self._queries

    def drift(self) -> float | None:
        """1 - cosine between the last step's queries and the last refresh's, mean over layers and query heads.

        Queries are compared as attention sees them, after RoPE, so distance in position counts too.
        """
        if not self._queries or not self._refresh_queries:
            return None
        now = torch.stack([self._queries[layer] for layer in self._refresh_queries]).float()
        then = torch.stack(list(self._refresh_queries.values())).float()
        return float(1.0 - torch.cosine_similarity(now, then, dim=-1).mean())

    # StepAttention -------------------------------------------------------------------------------------------------

    def decodes(self, layer: int) -> bool:
        """True for layers with full attention during decode steps."""
        return self._is_full[layer] and self.plan is not PROMPT

    def saw_prompt(self, layer: int, q: Tensor) -> None:
        """Keeps the prompt's last W - 1 queries for the first refresh. q [H_q, n, D]."""
        rows = self.settings.prefill_window - 1
        if rows and self._is_full[layer]:
            kept = self._window.get(layer)
            self._window[layer] = (q if kept is None else torch.cat([kept, q], dim=1))[:, -rows:].clone()

    def decode(self, layer: int, q: Tensor, arguments: AttentionArguments) -> Tensor:
        """Attention of the step's one position. q [H_kv, G, D] -> [H_kv, G, D_v]."""
        clock = self.clock
        if clock is not None:
            clock.lap("model")
        cache = self.cache.full[layer]
        k, v = cache.k, cache.v
        sinks = None if arguments.sink_logits is None else arguments.sink_logits.view(q.shape[:2])
        how = (arguments.scaling, arguments.softcap, sinks)
        if self._queries is not None:
            self._queries[layer] = q
        if self.plan.dense(layer):
            out, weights, logits = dense_decode(q, k, v, *how)
            self.keys_read[layer] = k.shape[1]
            if clock is not None:
                clock.lap("attention")
            if self.plan.refresh:
                self._refresh(layer, q, logits, arguments)
        else:
            start, packed = self.recent_start(layer), self.packed[layer]
            out, weights = sparse_decode(q, packed, k[:, start:], v[:, start:], *how)
            self.keys_read[layer] = weights.shape[-1]
            if clock is not None:
                clock.lap("attention")
        if self.recorder is not None:
            self._record(layer, q, weights, k, arguments, how)
        return out

    # parts of a step -----------------------------------------------------------------------------------------------

    def _refresh(self, layer: int, q: Tensor, logits: Tensor, arguments: AttentionArguments) -> None:
        """The selector over J and the packing of what it chose. q [H_kv, G, D], logits [H_kv, G, T]."""
        s, cache, clock = self.settings, self.cache.full[layer], self.clock
        end = self._pinned_start[layer] = self._sliding_start
        rows = logits[:, :, s.sink : end]
        if layer in self._window:
            rows = torch.cat([self._window_logits(layer, end, arguments), rows], dim=1)
        selection = select(rows, cache.norms(s.sink, end), s, clock and clock.lap)
        self.packed[layer] = PackedMemory.pack(cache, s.sink, selection.indices + s.sink)
        if clock is not None:
            clock.lap("pack")
        if self._queries is not None:
            self._refresh_queries[layer] = q
        if self.recorder is not None:
            self.recorder.selected(self.step, layer, selection, s.sink)
            if layer in self._window:
                self.recorder.window(layer, self._window[layer])
            clock.lap("record")

    def _window_logits(self, layer: int, end: int, arguments: AttentionArguments) -> Tensor:
        """Logits of the prompt's last queries over J, -inf where a row may not look. -> [H_kv, G·(W-1), J]."""
        cache, sink = self.cache.full[layer], self.settings.sink
        first = self.length - 1 - self._window[layer].shape[1]  # the window ends just before the query of this step
        window = self._window[layer][:, max(0, sink - first) :]  # queries inside the sink see no candidate
        first = max(first, sink)
        kv_heads, n = cache.k.shape[0], window.shape[1]
        q = window.reshape(kv_heads, -1, window.shape[-1])
        logits = attention_logits(q, cache.k[:, sink:end], arguments.scaling, arguments.softcap)
        if end > first + 1:
            own = torch.arange(first, first + n, device=q.device).repeat(q.shape[1] // n)
            later = torch.arange(sink, end, device=q.device)[None] > own[:, None]
            logits = logits.masked_fill(later, -torch.inf)
        return logits

    def _record(
        self, layer: int, q: Tensor, weights: Tensor, k: Tensor, arguments: AttentionArguments, how: tuple
    ) -> None:
        positions, dense, missed = None, None, None
        if not self.plan.dense(layer):
            packed = self.packed[layer]
            recent = torch.arange(self.recent_start(layer), k.shape[1], device=q.device).expand(q.shape[0], -1)
            positions = torch.cat([packed.positions, recent], dim=1)
        mean = weights.mean(1)
        if self.recorder.request.audit:
            dense = mean
            if positions is not None:
                dense = dense_decode(q, k, self.cache.full[layer].v, *how)[1].mean(1)
            kept = dense.sum(-1) if positions is None else torch.gather(dense, 1, positions).sum(-1)
            missed = (dense.sum(-1) - kept).clamp_min(0.0)
        self.recorder.attended(layer, q, Attended(mean, positions, dense, missed), arguments)
        self.clock.lap("record")
