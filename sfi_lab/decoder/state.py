"""One sequence's state: full caches, packed memories, the step's plan, and what attention does with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.decode import attention_logits, attention_weights, dense_decode, sparse_decode
from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.decoder.clock import StageClock
from sfi_lab.decoder.prompt_facts import PromptFacts
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
        self.dense_until = 0  # positions, from the first on, whose K/V were made under dense attention
        self.prompt = PromptFacts(settings.prefill_window - 1)
        self.recorder: Recorder | None = None
        self.clock: StageClock | None = None
        self._sliding_start = 0  # first position of the recent window at this step
        self._pinned_start: dict[int, int] = {}  # the same at each layer's last refresh
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

    def end(self) -> StepPlan:
        """After the forward: notes what stays dense, forgets what only the first step may use; the plan as it came out."""
        whole = self.plan.route == "slow" and self.plan.group is None
        remade = self.settings.rectify and self.plan.refresh  # whatever fast steps had made is dense again
        if whole and (remade or self.dense_until == self.length - 1):
            self.dense_until = self.length
        self.prompt = self.prompt.emptied()
        return self.plan

    def drop_fast(self) -> int:
        """With rectification: cuts off the positions whose K/V fast steps made, so that dense attention makes them anew; how many."""
        before = self.length
        self.dense_until = min(self.dense_until, before)
        if self.settings.rectify:
            self.cache.truncate(self.dense_until)
        return before - self.length

    def forget_selection(self) -> None:
        """Drops the packed memories (a new prompt is being read, or the conversation was cut)."""
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

    @property
    def keys_scored(self) -> float:
        """Keys per KV head that the last step looked at only to choose: none, a slow step's evidence is its attention."""
        return 0.0

    @property
    def bytes_kept(self) -> int:
        """Bytes of keys and values held by the layers with full attention: the full caches, and the packed memories."""
        packed = sum(m.k.nbytes + m.v.nbytes for m in self.packed.values())
        return packed + sum(self.cache.full[layer].nbytes for layer in self.full_layers)

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

    def saw_prompt(self, layer: int, q: Tensor, arguments: AttentionArguments) -> None:
        """Keeps what the first choice needs of a prompt; where positions are read again, the step is the last of them.

        q [H_q, n, D], the queries of the newest n positions.
        """
        if not self._is_full[layer]:
            return
        cache = self.cache.full[layer]
        if self.plan is PROMPT:
            self.prompt.saw(layer, q, cache.k, arguments)
            return
        if self.clock is not None:
            self.clock.lap("model")
        mine = q[:, -1].reshape(cache.k.shape[0], -1, q.shape[-1])
        logits = attention_logits(mine, cache.k, arguments.scaling, arguments.softcap)
        sinks = self._sinks(mine, arguments)
        self._dense_step(layer, mine, attention_weights(logits, sinks), logits, arguments)

    def decode(self, layer: int, q: Tensor, arguments: AttentionArguments) -> Tensor:
        """Attention of the step's one position. q [H_kv, G, D] -> [H_kv, G, D_v]."""
        if self.clock is not None:
            self.clock.lap("model")
        cache = self.cache.full[layer]
        k, v = cache.k, cache.v
        how = (arguments.scaling, arguments.softcap, self._sinks(q, arguments))
        if self.plan.dense(layer):
            out, weights, logits = dense_decode(q, k, v, *how)
            self._dense_step(layer, q, weights, logits, arguments)
            return out
        start, packed = self.recent_start(layer), self.packed[layer]
        out, weights = sparse_decode(q, packed, k[:, start:], v[:, start:], *how)
        self._attended(layer, q, weights)
        if self.recorder is not None:
            recent = torch.arange(start, k.shape[1], device=q.device).expand(q.shape[0], -1)
            self._record(layer, q, weights, torch.cat([packed.positions, recent], dim=1), arguments)
        return out

    # parts of a step -----------------------------------------------------------------------------------------------

    @staticmethod
    def _sinks(q: Tensor, arguments: AttentionArguments) -> Tensor | None:
        """The model's sink logits [H_kv, G], where it has them."""
        return None if arguments.sink_logits is None else arguments.sink_logits.view(q.shape[:2])

    def _dense_step(
        self, layer: int, q: Tensor, weights: Tensor, logits: Tensor, arguments: AttentionArguments
    ) -> None:
        """A slow step's layer after its attention: the refresh, and the record."""
        self._attended(layer, q, weights)
        if self.plan.refresh:
            self._refresh(layer, q, logits, arguments)
        if self.recorder is not None:
            self._record(layer, q, weights, None, arguments)

    def _attended(self, layer: int, q: Tensor, weights: Tensor) -> None:
        """Notes what every step's layer leaves behind. weights [H_kv, G, N] over the N positions read."""
        if self._queries is not None:
            self._queries[layer] = q
        self.keys_read[layer] = weights.shape[-1]
        if self.clock is not None:
            self.clock.lap("attention")

    def _refresh(self, layer: int, q: Tensor, logits: Tensor, arguments: AttentionArguments) -> None:
        """The selector over J and the packing of what it chose. q [H_kv, G, D], logits [H_kv, G, T]."""
        s, cache, clock = self.settings, self.cache.full[layer], self.clock
        end = self._pinned_start[layer] = self._sliding_start
        rows = logits[:, :, s.sink : end]
        window = self.prompt.queries(layer, s.prefill_window - 1)
        if window is not None:
            rows = torch.cat([self._window_logits(window, cache.k, end, arguments), rows], dim=1)
        selection = select(rows, cache.norms(s.sink, end), s, clock and clock.lap)
        self.packed[layer] = PackedMemory.pack(cache, s.sink, selection.indices + s.sink)
        if clock is not None:
            clock.lap("pack")
        if self._queries is not None:
            self._refresh_queries[layer] = q
        if self.recorder is not None:
            self.recorder.selected(self.step, layer, selection, s.sink)
            if window is not None:
                self.recorder.window(layer, window)
            clock.lap("record")

    def _window_logits(self, window: Tensor, k: Tensor, end: int, arguments: AttentionArguments) -> Tensor:
        """Logits of the prompt's last queries [H_q, W - 1, D] over J, -inf where a row may not look. -> [H_kv, G·(W-1), J]."""
        sink = self.settings.sink
        first = self.length - 1 - window.shape[1]  # the window ends just before the query of this step
        window = window[:, max(0, sink - first) :]  # queries inside the sink see no candidate
        first = max(first, sink)
        n = window.shape[1]
        q = window.reshape(k.shape[0], -1, window.shape[-1])
        logits = attention_logits(q, k[:, sink:end], arguments.scaling, arguments.softcap)
        if end > first + 1:
            own = torch.arange(first, first + n, device=q.device).repeat(q.shape[1] // n)
            later = torch.arange(sink, end, device=q.device)[None] > own[:, None]
            logits = logits.masked_fill(later, -torch.inf)
        return logits

    def _record(
        self, layer: int, q: Tensor, weights: Tensor, positions: Tensor | None, arguments: AttentionArguments
    ) -> None:
        """Tells the recorder of one layer's attention, weights [H_kv, G, N] over positions [H_kv, N] (None: all)."""
        mean, dense, missed = weights.mean(1), None, None
        if self.recorder.request.audit:
            dense = mean
            if positions is not None:
                cache = self.cache.full[layer]
                logits = attention_logits(q, cache.k, arguments.scaling, arguments.softcap)
                dense = attention_weights(logits, self._sinks(q, arguments)).mean(1)
            kept = dense.sum(-1) if positions is None else torch.gather(dense, 1, positions).sum(-1)
            missed = (dense.sum(-1) - kept).clamp_min(0.0)
        self.recorder.attended(layer, q, Attended(mean, positions, dense, missed), arguments)
        self.clock.lap("record")
