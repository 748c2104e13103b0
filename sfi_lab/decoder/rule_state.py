"""A sequence whose steps read what a method's rule says, instead of the paper's packed memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.decode import decode_at
from sfi_lab.decoder.prompt_facts import PromptFacts
from sfi_lab.decoder.state import DecoderState
from sfi_lab.loading import ModelSpec
from sfi_lab.methods import Method, PromptLayer, Rule
from sfi_lab.settings import Settings
from sfi_lab.trigger.plan import FAST, NOTHING_TO_SELECT, StepPlan


class RuleState(DecoderState):
    """The same sequence, decoded by a `Rule`: every step is a fast one, and the rule says what each layer reads.

    make_rule: gives a fresh rule; called anew for each prompt. The full cache stays (see `Rule`).
    """

    def __init__(self, layer_kinds: Sequence[str], settings: Settings, make_rule: Callable[[], Rule]) -> None:
        super().__init__(layer_kinds, settings)
        self._make_rule = make_rule
        self.rule = make_rule()
        self.prompt = PromptFacts(self.rule.prompt_queries, self.rule.accumulates)
        self._prompted: set[int] = set()  # layers whose rule has been told of the prompt
        self._chose = False

    def forget_selection(self) -> None:
        super().forget_selection()
        self.rule, self._prompted = self._make_rule(), set()

    def begin(self, plan: StepPlan, step: int) -> None:
        super().begin(FAST, step)  # whatever the trigger says: the rule decides what is read
        self._chose = False

    def end(self) -> StepPlan:
        super().end()
        if all(read == self.length for read in self.keys_read.values()):
            return NOTHING_TO_SELECT
        return StepPlan("fast", refresh=True) if self._chose else FAST

    def recent_start(self, layer: int) -> int:
        return self.rule.recent_start(self.length)

    @property
    def keys_scored(self) -> float:
        layers = self.full_layers
        return sum(self.rule.scored(layer, self.length) for layer in layers) / len(layers) if layers else 0.0

    @property
    def bytes_kept(self) -> int:
        total = 0.0
        for layer in self.full_layers:
            per_position = self.cache.full[layer].nbytes / self.length
            total += self.rule.stored(layer, self.length) * per_position + self.rule.extra_bytes(layer, self.length)
        return round(total)

    def decode(self, layer: int, q: Tensor, arguments: AttentionArguments) -> Tensor:
        """Attention of the step's one position. q [H_kv, G, D] -> [H_kv, G, D_v]."""
        if self.clock is not None:
            self.clock.lap("model")
        cache = self.cache.full[layer]
        if layer not in self._prompted:
            self._prompted.add(layer)
            self.rule.prompt(layer, self._seen(layer, arguments))
        positions = self.rule.read(layer, q, cache.k, arguments)
        if positions is not None and positions.shape[1] == cache.length:
            positions = None
        if self.clock is not None:
            self.clock.lap("topk")
        sinks = self._sinks(q, arguments)
        out, weights = decode_at(q, cache.k, cache.v, positions, arguments.scaling, arguments.softcap, sinks)
        self._attended(layer, q, weights)
        self.rule.attended(layer, weights, positions)
        chosen = self.rule.chosen(layer)
        if chosen is not None:
            self._chose = True
            if self.recorder is not None:
                self.recorder.chose(self.step, layer, chosen, cache.length)
        if self.clock is not None:
            self.clock.lap("topk")
        if self.recorder is not None:
            self._record(layer, q, weights, positions, arguments)
        return out

    def _seen(self, layer: int, arguments: AttentionArguments) -> PromptLayer:
        """The prompt as the rule is told of it: all positions before this step's own."""
        cache = self.cache.full[layer]
        k, v = cache.k[:, :-1], cache.v[:, :-1]
        queries = self.prompt.queries(layer, self.rule.prompt_queries)
        if queries is None:
            queries = k.new_empty(k.shape[0], 1, 0, k.shape[2])
        else:
            queries = queries.reshape(k.shape[0], -1, *queries.shape[1:])
        return PromptLayer(k, v, queries, self.prompt.received(layer), arguments)


def decoder_state(method: Method, settings: Settings, spec: ModelSpec) -> DecoderState:
    """A fresh sequence for a method; `settings` are those that `method.settings` returned."""
    if method.rule(settings, spec) is None:
        return DecoderState(spec.layer_kinds, settings)
    return RuleState(spec.layer_kinds, settings, lambda: method.rule(settings, spec))
