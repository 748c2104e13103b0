"""The engine: a batch of sequences over a paged cache, each step one replay of a captured graph.

prompts ─► read (SDPA, chunks) ─► start ─► step, step, …       fast · slow · dense, chosen by the host from flags that
                                                               the device reported behind the step before
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sfi_lab.errors import SfiError
from sfi_lab.runtime.attention import StepAttention, Window
from sfi_lab.runtime.batch import BatchResult
from sfi_lab.runtime.classes import after_end, token_classes
from sfi_lab.runtime.forward import FusedForward, PlainForward, read_prompt
from sfi_lab.runtime.graphs import Graphs
from sfi_lab.runtime.memory_plan import MemoryPlan, free_bytes
from sfi_lab.runtime.ops import advance, best_token
from sfi_lab.runtime.ops.advance import EOS
from sfi_lab.runtime.paged import PagedCache
from sfi_lab.runtime.sampling import Sampling, draw
from sfi_lab.runtime.state import ALL_DONE, FIELDS, FIRST, BatchState, Rules, kind_of
from sfi_lab.runtime.weights import stack_weights, why_not_fused
from sfi_lab.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from sfi_lab.loading.spec import ModelSpec
    from sfi_lab.sentences import TokenTable

_CHUNK = 4096  # prompt tokens a forward


@dataclass(frozen=True)
class EngineOptions:
    """How an engine is built; nothing here changes what is computed, only how.

    page_size: positions a page, a power of two from 16 up. path: "auto" (fused where the model allows it), "fused" or
    "plain". capture: CUDA graphs; None: on CUDA. overlap: selector and packing on a second stream. pdl: launches that
    begin while the one before ends. history: steps whose tokens and reasons are kept on the device.
    backend: of the kernels, "triton" or "reference"; None chooses by device.
    """

    page_size: int = 64
    path: str = "auto"
    capture: bool | None = None
    overlap: bool = True
    pdl: bool = True
    history: int = 4096
    backend: str | None = None


class Engine:
    """A batch of sequences, each on its own route and length.

    Args:
        model, spec: any model whose layers all have full attention. settings: of every sequence.
        batch, max_length: sequences, and positions each may reach; all memory is taken here.
        tokens: the vocabulary, for sentence triggers and openers; None: no token ends a sentence.
        sampling: None is greedy. eos_ids: tokens that end a sequence.

    Raises SfiError: more memory than there is (with what would fit), or a model that this engine can't run.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        spec: ModelSpec,
        settings: Settings,
        batch: int = 1,
        max_length: int = 4096,
        *,
        tokens: TokenTable | None = None,
        sampling: Sampling | None = None,
        eos_ids: Sequence[int] = (),
        options: EngineOptions | None = None,
    ) -> None:
        self.model, self.spec, self.settings, self.sampling = model, spec, settings, sampling
        self.options = options = options or EngineOptions()
        self.device, self.dtype = model.device, model.dtype
        plan = plan_for(spec, settings, batch, max_length, options.page_size, self.dtype)
        plan.check(free_bytes(self.device))
        self.plan, self.rules = plan, Rules.of(settings)
        with torch.no_grad():
            self.cache = PagedCache(plan, self.dtype, self.device, options.backend)
            self.state = BatchState(batch, self.device, options.history, self.rules)
            self.attention = StepAttention(
                self.cache, self.state, settings, spec.group_size, options.overlap, options.backend
            )
            self.path, self.forward = self._forward(options)
            self.classes = token_classes(spec.vocab_size, settings, tokens, eos_ids).to(self.device)
        self.lengths = [0] * batch  # cached positions, as the host knows them
        self._windows: list[dict[int, Tensor]] = [{} for _ in range(batch)]
        self._generator = torch.Generator(self.device).manual_seed(sampling.seed if sampling else 0)
        capture = self.device.type == "cuda" if options.capture is None else options.capture
        self.graphs = Graphs(self.device, self._generator) if capture else None

    def _forward(self, options: EngineOptions) -> tuple[str, FusedForward | PlainForward]:
        why = why_not_fused(self.model)
        if options.path == "fused" and why:
            raise SfiError(f"the fused step can't run this model: {why}; use path='plain'")
        if options.path not in ("auto", "fused", "plain"):
            raise SfiError(f"path = {options.path!r} is not allowed; allowed: auto, fused, plain")
        if options.path == "plain" or why:
            return "plain", PlainForward(self.model, self.cache)
        cuda = self.device.type == "cuda"
        pdl = options.pdl and cuda and torch.cuda.get_device_capability(self.device) >= (9, 0)  # Hopper and later
        return "fused", FusedForward(stack_weights(self.model, self.cache.capacity), self.cache, pdl, options.backend)

    # prompts -------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def read(self, sequence: int, ids: Sequence[int], keep: int = 0) -> Tensor:
        """Reads new tokens behind the first `keep` cached positions of a sequence; logits [V] of the last."""
        self._room(sequence, keep + len(ids))
        window = 0 if self.settings.is_dense else self.settings.prefill_window - 1
        logits, self._windows[sequence] = read_prompt(self.model, self.cache, sequence, list(ids), keep, window, _CHUNK)
        self.lengths[sequence] = keep + len(ids)
        return logits

    @torch.inference_mode()
    def start(self, logits: Tensor, last_tokens: Sequence[Sequence[int]] | None = None) -> None:
        """Makes the first token of every sequence from its prompt's logits [B, V] and prepares the first step.

        last_tokens: the prompts, to tell whether a sentence has just ended (for fire_on "next_sentence").
        """
        table = torch.zeros(len(FIELDS), self.plan.batch, dtype=torch.int32)
        table[FIELDS.index("length")] = torch.tensor(self.lengths, dtype=torch.int32)
        table[FIELDS.index("fast_steps")] = -1
        classes = self.classes.cpu()
        for b, ids in enumerate(last_tokens or ()):
            table[FIELDS.index("after_end"), b] = int(after_end(classes, ids))
        self.state.upload(table)
        self.state.flags.zero_()
        self._finish(logits)

    def change_rhythm(self, **fields: int) -> None:
        """New t_max, period, min_gap or cooldown from the next step on; captured graphs stay valid."""
        allowed = ("t_max", "period", "min_gap", "cooldown")
        if unknown := sorted(set(fields) - set(allowed)):
            raise SfiError(f"{', '.join(unknown)} can't change between steps; allowed: {', '.join(allowed)}")
        self.settings = self.settings.with_(**fields)
        self.rules = Rules.of(self.settings)
        self.state.limits.copy_(torch.tensor(self.rules.limits, dtype=torch.int32))

    # steps ---------------------------------------------------------------------------------------------------------

    def prepare(self, kinds: Sequence[str] | None = None) -> None:
        """Captures the graphs (nothing to do without them); the cache's first position is overwritten, so do it first."""
        if self.graphs is None:
            return
        kinds = kinds or (("dense",) if not self.plan.k else ("fast", "slow", "dense"))
        for kind in kinds:
            groups = range(self.settings.layer_groups) if kind == "slow" and self.settings.layer_groups > 1 else ()
            for group in (None, *groups):
                if not self.graphs.has(kind, group):
                    self._harmless()
                    self.graphs.capture(kind, group, lambda kind=kind, group=group: self._body(kind, group))
        self._harmless()

    def step(self, kind: str, group: int | None = None) -> Tensor:
        """Queues one step and returns its logits [B, V]; nothing waits. `wait` tells what came of it."""
        windows = [b for b, window in enumerate(self._windows) if window]
        with torch.inference_mode():
            if kind == "slow" and windows:
                logits = self._first(windows, group)
            elif self.graphs is not None:
                if not self.graphs.has(kind, group):
                    raise SfiError(
                        f"no graph of a {kind} step was captured; call prepare() before the prompts are read"
                    )
                logits = self.graphs.replay(kind, group)
            else:
                logits = self._body(kind, group)
        self._windows = [{} for _ in self._windows]
        self.lengths = [n + 1 for n in self.lengths]
        return logits

    def wait(self) -> int:
        """Waits for the last step; its flags about the next one (`state.host` holds tokens and log-probabilities)."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return int(self.state.host.flags[0])

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> BatchResult:
        """Decodes a batch of prompts (token ids); routes are decided on the device, the host only picks the graph.

        A sequence ends with an EOS (kept as its last token) or after max_new_tokens.
        """
        if len(prompts) != self.plan.batch or not all(len(ids) for ids in prompts):
            raise SfiError(
                f"this engine decodes {self.plan.batch} prompts of at least one token at a time; got {len(prompts)}"
            )
        if max_new_tokens < 1 or max_new_tokens > len(self.state.history):
            raise SfiError(
                f"max_new_tokens = {max_new_tokens} is not allowed; allowed: 1 to {len(self.state.history)} (history)"
            )
        for b, ids in enumerate(prompts):
            self._room(b, len(ids) + max_new_tokens - 1)
        self.prepare()
        began = time.perf_counter()
        self.start(torch.stack([self.read(b, ids) for b, ids in enumerate(prompts)]), prompts)
        flags = self.wait()
        middle = time.perf_counter()
        for made in range(1, max_new_tokens):
            if flags & ALL_DONE:
                break
            kind = kind_of(flags)
            self.step(kind, self._group(made, kind))
            flags = self.wait()
        return self._result(middle - began, time.perf_counter() - middle)

    def _group(self, made: int, kind: str) -> int | None:
        if self.settings.layer_groups > 1:
            raise SfiError("layer groups take turns per sequence; decode one sequence at a time with them")
        return None

    def _body(self, kind: str, group: int | None) -> Tensor:
        """Everything of one step, from tokens to the next step's routes."""
        self.attention.begin(kind, group)
        logits = self.forward(self.state, self.attention)
        self.attention.finish()
        self._finish(logits)
        return logits

    def _finish(self, logits: Tensor) -> None:
        chosen = draw(logits, self.sampling, self._generator) if self.sampling else None
        token, logprob = best_token(logits, chosen, self.options.backend)
        advance(self.state, token, logprob, self.classes, self.rules, self.options.backend)
        self.state.download()

    def _first(self, windows: list[int], group: int | None) -> Tensor:
        """The first step behind a prompt: the prompt's last queries join the evidence; not captured."""
        reasons = self.state.reason.tolist()
        self.attention.windows = {b: Window(self.lengths[b], self._windows[b]) for b in windows if reasons[b] == FIRST}
        try:
            return self._body("slow", group)
        finally:
            self.attention.windows = {}

    # parts ---------------------------------------------------------------------------------------------------------

    def _harmless(self) -> None:
        """A table with which a step writes nothing but position 0 and selects nothing."""
        table = torch.zeros(len(FIELDS), self.plan.batch, dtype=torch.int32)
        table[FIELDS.index("length")] = 1
        self.state.upload(table)
        self.state.flags.zero_()
        self.state.tokens.zero_()

    def _room(self, sequence: int, length: int) -> None:
        if length > self.cache.capacity:
            raise SfiError(
                f"sequence {sequence} would reach {length:,} positions; this engine holds {self.cache.capacity:,} each"
            )

    def _result(self, prefill_seconds: float, seconds: float) -> BatchResult:
        made = int(self.state.flags[1])
        eos = {i for i, bits in enumerate(self.classes.tolist()) if bits & EOS}
        history = self.state.history[:made].tolist()
        return BatchResult.of(history, eos, self.settings.trigger, prefill_seconds, seconds)


def plan_for(
    spec: ModelSpec, settings: Settings, batch: int, max_length: int, page_size: int, dtype: torch.dtype
) -> MemoryPlan:
    """The memory of an engine; K is cut to what a sequence can have candidates for."""
    length = -(-max_length // page_size) * page_size
    k = min(settings.k, length - settings.sink - settings.recent)
    return MemoryPlan(
        spec.n_layers, spec.n_query_heads, spec.n_kv_heads, spec.head_dim, spec.vocab_size, batch, length, settings.sink,
        0 if settings.is_dense or k < 1 else k, page_size, dtype.itemsize,
    )  # fmt: skip
