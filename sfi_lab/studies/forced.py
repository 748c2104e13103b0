"""A teacher-forced Slow-Fast run in one forward: the tokens are known, so every layer computes all its steps at once.

At layer l the queries and keys of all steps follow from the layers below, and a refresh at step t needs nothing of a
later step. So layer by layer the selector runs at its refresh steps, each step's row of the attention mask says what
it reads, and the logits come out as those of the step-by-step run, up to the order of floating-point sums (a test
holds both side by side). What can't be known beforehand is a trigger that looks at queries (drift): its steps must be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments, read_arguments
from sfi_lab.attention.decode import attention_logits, attention_weights
from sfi_lab.attention.prefill import masked_attention
from sfi_lab.compat import attention_function, call_model
from sfi_lab.decoder.cache import SequenceCache
from sfi_lab.decoder.prompt_facts import PromptFacts
from sfi_lab.errors import SfiError
from sfi_lab.memory import recent_start
from sfi_lab.selector import select
from sfi_lab.sentences import SentenceTracker
from sfi_lab.settings import Settings
from sfi_lab.studies.prefix import Prefix
from sfi_lab.trigger.plan import Planner, StepPlan

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class LayerView:
    """One layer as a reading rule sees it: n decode steps over T positions.

    logits float32 [H_kv, G, n, T] (later positions not masked); weights, their causal softmax, same shape; window
    float32 [H_kv, G, w, T] logits of the prompt's last queries, or None; norms float32 [H_kv, T]; lengths: cached
    positions at each step.
    """

    layer: int
    logits: Tensor
    weights: Tensor
    window: Tensor | None
    norms: Tensor
    lengths: list[int]


class Reading(Protocol):
    """What decode steps read: implemented by `SlowFast`, `Oracle` and `Everything`."""

    def mask(self, view: LayerView) -> Tensor:
        """bool [H_kv, n, T], True where a step may look; causality is applied by the caller."""


@dataclass(frozen=True, slots=True)
class SlowFast:
    """The decoder's own rule under `settings`, with the plan of every decode step."""

    settings: Settings
    plans: Sequence[StepPlan]

    def mask(self, view: LayerView) -> Tensor:
        heads, _, n, total = view.logits.shape
        s = self.settings
        mask = torch.zeros(heads, n, total, dtype=torch.bool)
        selected, pinned = None, None
        for i, (plan, length) in enumerate(zip(self.plans, view.lengths, strict=True)):
            sliding = recent_start(length, s.sink, s.recent)
            if plan.dense(view.layer):
                mask[:, i] = True
                if plan.refresh:
                    selected, pinned = self._select(view, i, sliding), sliding
                continue
            mask[:, i, : s.sink] = True
            mask[:, i].scatter_(1, selected, True)
            mask[:, i, pinned if s.recent_mode == "pinned" else sliding :] = True
        return mask

    def _select(self, view: LayerView, i: int, end: int) -> Tensor:
        s = self.settings
        rows = view.logits[:, :, i, s.sink : end]
        if i == 0 and view.window is not None and s.prefill_window > 1:
            window = view.window[:, :, 1 - s.prefill_window :, s.sink : end]
            n = window.shape[2]
            own = torch.arange(view.lengths[0] - 1 - n, view.lengths[0] - 1)
            window = window.masked_fill(torch.arange(s.sink, end)[None] > own[:, None], -torch.inf)
            rows = torch.cat([window.flatten(1, 2), rows], dim=1)
        return select(rows, view.norms[:, s.sink : end], s).indices + s.sink


@dataclass(frozen=True, slots=True)
class Oracle:
    """Sink, recent and the K candidates with the most attention (mean over the group) at that very step."""

    sink: int
    recent: int
    k: int

    def mask(self, view: LayerView) -> Tensor:
        mean = view.weights.mean(1)
        mask = torch.zeros(mean.shape, dtype=torch.bool)
        for i, length in enumerate(view.lengths):
            end = recent_start(length, self.sink, self.recent)
            mask[:, i, : self.sink] = True
            mask[:, i, end:] = True
            if end > self.sink and self.k:
                best = mean[:, i, self.sink : end].topk(min(self.k, end - self.sink), dim=-1).indices
                mask[:, i].scatter_(1, best + self.sink, True)
        return mask


@dataclass(frozen=True, slots=True)
class Everything:
    """Every step reads the whole prefix, by the arithmetic of the sparse rules: dense attention's noise floor."""

    def mask(self, view: LayerView) -> Tensor:
        return torch.ones(view.weights[:, 0].shape, dtype=torch.bool)


def window_only(sink: int, recent: int) -> Oracle:
    """Sink and recent alone (StreamingLLM's rule)."""
    return Oracle(sink, recent, 0)


@dataclass(frozen=True, slots=True)
class Forced:
    """logits float32 [n + 1, V]: row 0 is the prompt's last position, row 1 + i that of decode step i. kept float32
    [n, layers]: dense attention mass of this run's own queries on what was read (mean over heads); keys_read float32
    [n, layers], mean over KV heads."""

    logits: Tensor
    kept: np.ndarray
    keys_read: np.ndarray
    lengths: np.ndarray

    @property
    def read_share(self) -> float:
        """Keys read over keys available, all decode steps and layers together."""
        return float(self.keys_read.mean(1).sum() / self.lengths.sum())


def plan_steps(prefix: Prefix, tokens: Sequence[int], settings: Settings) -> list[StepPlan]:
    """The decoder's plan of every decode step that feeds `tokens[:-1]` (not for the drift trigger)."""
    tracker = SentenceTracker(prefix.lab.tokens, settings.enders)
    for token in prefix.ids:
        tracker.push(token)
    planner, plans = Planner(settings, selectable="full" in prefix.lab.spec.layer_kinds), []
    for i, token in enumerate(tokens[:-1]):
        plans.append(planner.next(len(prefix.ids) + i + 1, tracker.push(token)))
    return plans


def _forward(lab: Lab, function: _Attention, cache: SequenceCache, ids: Sequence[int], keep: int) -> Tensor:
    """Logits float32 [keep, V] of the last positions; the cache takes the new ones in."""
    first = cache.length()
    with torch.inference_mode(), attention_function(lab.model, "sfi_forced", function):
        at = torch.arange(first, first + len(ids), device=lab.device)[None]
        return call_model(lab.model, torch.tensor([ids], device=lab.device), cache, at, keep)[0].float().cpu()


def forced_pass(prefix: Prefix, tokens: Sequence[int], reading: Reading | None) -> Forced:
    """Feeds `tokens[:-1]` after the prompt; `reading` None is dense attention, computed the same way."""
    lab, n = prefix.lab, len(tokens) - 1
    if n < 1:
        raise SfiError(
            "a teacher-forced pass needs two tokens at least: one that the prompt predicts, one that a step does"
        )
    read = prefix.read
    function = _Attention(lab, n, reading, read.facts)
    first = read.logits.float().cpu()[None]
    logits = torch.cat([first, _forward(lab, function, read.cache.copy(), tokens[:-1], n)])
    lengths = np.arange(len(prefix.ids) + 1, len(prefix.ids) + n + 1)
    if not function.kept:
        whole = np.ones((n, 1), np.float32)
        return Forced(logits, whole, whole * lengths[:, None], lengths)
    return Forced(logits, np.stack(function.kept, 1), np.stack(function.keys_read, 1), lengths)


class _Attention:
    """The attention function of one pass: dense and causal without a reading rule, else each step's row by the rule."""

    def __init__(self, lab: Lab, n: int, reading: Reading | None, prompt: PromptFacts) -> None:
        self.model, self.kinds, self.n = lab.spec.architecture, lab.spec.layer_kinds, n
        self.reading, self.prompt = reading, prompt
        self.kept: list[np.ndarray] = []
        self.keys_read: list[np.ndarray] = []

    def __call__(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask=None, scaling=None, **extra: Any
    ):
        """The signature of transformers' attention functions."""
        arguments = read_arguments(self.model, query.shape[-1], scaling, extra)
        q, k, v, layer = query[0], key[0], value[0], module.layer_idx
        if self.reading is None or self.kinds[layer] != "full":  # layers with a window of their own never become sparse
            mask = None if attention_mask is None else attention_mask[0, 0, :, : k.shape[1]]
            out = masked_attention(q, k, v, mask, arguments.scaling, arguments.softcap, arguments.sink_logits)
        else:
            out = self._steps(layer, q, k, v, arguments)
        return out.transpose(0, 1)[None].contiguous(), None

    def _steps(self, layer: int, q: Tensor, k: Tensor, v: Tensor, a: AttentionArguments) -> Tensor:
        heads, n, (kv_heads, total, _) = q.shape[0], self.n, k.shape
        group = heads // kv_heads

        def logits_of(rows: Tensor) -> Tensor:
            flat = attention_logits(rows.reshape(kv_heads, -1, rows.shape[-1]), k, a.scaling, a.softcap)
            return flat.view(kv_heads, group, -1, total)

        logits, window = logits_of(q), self.prompt.queries(layer, self.prompt.rows)
        lengths = list(range(total - n + 1, total + 1))
        causal = torch.arange(total)[None] < torch.tensor(lengths)[:, None]
        sinks = None if a.sink_logits is None else a.sink_logits.view(kv_heads, group, 1).expand(-1, -1, n)
        weights = attention_weights(logits.masked_fill(~causal.to(logits.device), -torch.inf), sinks)
        view = LayerView(
            layer,
            logits.cpu(),
            weights.cpu(),
            None if window is None else logits_of(window).cpu(),
            k.float().norm(dim=-1).cpu(),
            lengths,
        )
        mask = self.reading.mask(view) & causal
        self.kept.append((view.weights * mask[:, None]).sum(-1).mean((0, 1)).numpy())
        self.keys_read.append(mask.sum(-1).float().mean(0).numpy())
        read = attention_weights(logits.masked_fill(~mask.to(logits.device)[:, None], -torch.inf), sinks)
        return torch.matmul(read.to(v.dtype), v[:, None]).reshape(heads, n, -1)
