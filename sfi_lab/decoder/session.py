"""A conversation: one sequence that can be decoded, read on, and decoded again from its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor
from tqdm import tqdm
from transformers import GenerationConfig, LogitsProcessorList

from sfi_lab.decoder.loop import Run, RunOptions
from sfi_lab.decoder.prompt import Prompt, common_prefix, encode, is_chat
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.decoder.recording import check_size, meta, token_row
from sfi_lab.decoder.result import Result, Step
from sfi_lab.decoder.rule_state import RuleState, decoder_state
from sfi_lab.decoder.sampling import Sampler, generation_config
from sfi_lab.decoder.streaming import TextStream
from sfi_lab.errors import SfiError
from sfi_lab.methods import Method, parse_method
from sfi_lab.sentences import SentenceEvent, SentenceTracker
from sfi_lab.settings import Settings
from sfi_lab.trace import Recorder, RecordRequest
from sfi_lab.trace.request import BUDGET, default_trace
from sfi_lab.trigger.plan import Planner

if TYPE_CHECKING:
    from sfi_lab.lab import Lab


_NEW_TOKENS = 256  # where neither the caller nor a generation config says how many
_NO_LIMIT = 1 << 40  # positions of a model that does not say how many it was made for


class Session:
    """One sequence and its cache. `generate` and `stream` may be called again with the next turn."""

    def __init__(self, lab: Lab, settings: Settings, method: str | Method = "sfi") -> None:
        self.method = parse_method(method)
        self.lab, self.settings = lab, self.method.settings(settings)
        if self.settings.rectify and self.settings.layer_groups > 1:
            raise SfiError("rectify needs slow steps that are dense in every layer; allowed with it: layer_groups = 1")
        self.state = decoder_state(self.method, self.settings, lab.spec)
        self.planner = Planner(self.settings, selectable=bool(self.state.full_layers))
        self.uses_drift = self.settings.trigger == "drift"
        self.ids: list[int] = []  # everything so far; the last generated token is not in the cache yet
        self.tracker = SentenceTracker(lab.tokens, settings.enders)
        self.prompt_sentence = 0
        self.turn = 0  # counts calls of generate and stream, so that an overtaken stream notices
        self._messages: list[dict[str, str]] = []
        self._events: list[SentenceEvent] = []

    def generate(
        self,
        prompt: Prompt | ReadPrompt,
        max_new_tokens: int | None = None,
        *,
        progress: bool | None = None,
        **options: Any,
    ) -> Result:
        """Decodes until something ends the run; an interrupt (Ctrl-C) keeps what was made.

        Takes the arguments of `stream`. progress: a bar on standard error; None shows it on a terminal only.
        """
        result, run = self.prepare(prompt, max_new_tokens, **options)
        bar = tqdm(
            total=run.options.max_new_tokens,
            unit="tok",
            leave=False,
            disable=None if progress is None else not progress,
        )
        try:
            with bar:
                for step in run:
                    bar.update()
                    if step.route == "slow":
                        bar.set_postfix_str(f"slow: {step.reason}", refresh=False)
        except KeyboardInterrupt:
            result.stop_reason = "interrupted"
        self._remember_reply(result)
        return result

    def stream(self, prompt: Prompt | ReadPrompt, max_new_tokens: int | None = None, **options: Any) -> Iterator[Step]:
        """Decodes step by step.

        Args:
            prompt: text, chat messages ([{"role": …, "content": …}]), token ids, or a `ReadPrompt` (in a new session, for
                the reference loop). On a next turn text and ids are
                appended to what the cache holds; messages are added to the conversation and only what the cache
                doesn't hold yet is read.
            max_new_tokens: at most this many tokens; by default the given generation_config's, else 256.
            record: "off", "support" or "audit", each of the last two also with "+qk".
            trace: folder of the recording; by default traces/<model>-<time> in the working directory.
            record_layers, qk_layers: layers to record (default all with full attention). record_top: positions listed.
            trace_budget: bytes the recording may take (default 2 GB).
            generation_config: a Hugging Face GenerationConfig; by default the model's own, made greedy.
            logits_processor: further processors. stop: stop strings (`TextStream`). seed: of sampling (default settings.seed).
            ignore_eos: goes on after an end-of-text token.
            engine: "auto" (on a CUDA device the captured engine, else the reference loop), "reference" or "graph".
            watch: called with each step's index and logits [V], before the token is picked.
            force: teacher forcing: these token ids are fed one after another, and `logprob` is theirs.
            Any field of GenerationConfig may be given by name, e.g. do_sample=True, temperature=0.7.

        Raises SfiError before the first step for anything that can't be done.
        """
        result, run = self.prepare(prompt, max_new_tokens, **options)

        def steps() -> Iterator[Step]:
            try:
                yield from run
            finally:
                self._remember_reply(result)

        return steps()

    # preparing a run -----------------------------------------------------------------------------------------------

    def prepare(
        self,
        prompt: Prompt | ReadPrompt,
        max_new_tokens: int | None,
        *,
        record: str = "off",
        trace: str | Path | None = None,
        record_layers: Sequence[int] | None = None,
        qk_layers: Sequence[int] | None = None,
        record_top: int = 64,
        trace_budget: int = BUDGET,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
        ignore_eos: bool = False,
        force: Sequence[int] = (),
        engine: str = "auto",
        watch: Callable[[int, Tensor], None] | None = None,
        **fields: Any,
    ) -> tuple[Result, Run]:
        """A run that is ready to begin, and the result it will fill; arguments as in `stream`. Nothing is computed yet."""
        given = generation_config.max_new_tokens if generation_config is not None else None
        max_new_tokens = len(force) or (max_new_tokens if max_new_tokens is not None else given or _NEW_TOKENS)
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise SfiError(f"max_new_tokens = {max_new_tokens!r} is not allowed; allowed: a whole number ≥ 1")
        lab = self.lab
        config = _config(lab, generation_config, fields)
        request = RecordRequest.parse(record, self.state.full_layers, record_layers, qk_layers, record_top)
        if request.qk and self.settings.rectify:
            raise SfiError(
                "a recording with +qk can't follow rectify, which makes keys and values anew; leave one of them out"
            )
        read = prompt if isinstance(prompt, ReadPrompt) else None
        run = self._path(request.on, engine if read is None else "reference")
        ids, kept, messages = self._next_ids(prompt) if read is None else self._from_read(read)
        most = lab.spec.max_positions or _NO_LIMIT
        room = min(max_new_tokens, most - len(ids) + 1)
        if len(ids) > most:
            raise SfiError(
                f"the prompt has {len(ids)} tokens, the model's context {lab.spec.max_positions}; shorten the prompt"
            )
        eos = _eos(lab, generation_config, fields)
        seed = self.settings.seed if seed is None else seed
        stop = [*_stop_strings(stop), *_stop_strings(config.stop_strings)]
        sampler = Sampler(config, len(ids), eos, lab.device, seed, logits_processor)
        result = Result(self.settings, len(ids), session=self, method=self.method.label)
        ends = frozenset(() if ignore_eos else eos)
        options = RunOptions(max_new_tokens, ends, sampler, TextStream(lab.tokenizer, stop))
        options.read, options.watch = read, watch
        options.force = _forced(force, room, lab.spec.vocab_size)
        if request.on:
            check_size(lab, self.settings, request, len(ids), room, trace_budget)
            result.trace_path = Path(trace) if trace else default_trace(lab.name)
            options.recorder = Recorder(result.trace_path, request, meta(self, len(ids), seed, config))
        self._take(ids, kept, messages)
        if options.recorder:
            options.recorder.add_tokens(
                [
                    token_row(lab.tokens, i, token, event, "prompt")
                    for i, (token, event) in enumerate(zip(ids, self._events, strict=True))
                ]
            )
        return result, run(self, kept, options, result)

    def _path(self, recorded: bool, engine: str) -> type[Run]:
        """The class of the coming run, and the cached text where that run looks for it."""
        from sfi_lab.runtime.choice import why_reference

        rule = self.method.name if isinstance(self.state, RuleState) else None
        why = why_reference(self.lab, self.settings, recorded, engine, rule)
        if why is None:
            from sfi_lab.runtime.run import GraphRun

            return GraphRun
        self.lab.engines.move_out(self)
        self.lab.say(f"the reference loop decodes: {why}")
        return Run

    @property
    def cached(self) -> int:
        """Positions cached, in an engine or in `state`."""
        engine = self.lab.engines.of(self)
        return self.state.length if engine is None else engine.lengths[0]

    def _next_ids(self, prompt: Prompt) -> tuple[list[int], int, list[dict[str, str]]]:
        """All ids of the coming turn, how many of them the cache keeps, and the conversation so far."""
        lab, cached = self.lab, self.cached
        if is_chat(prompt):
            messages = [*self._messages, *prompt]
            ids = encode(lab.tokenizer, messages, lab.spec.vocab_size)
            # at least one token must be fed, or there are no logits to go on from
            return ids, min(common_prefix(ids, self.ids[:cached]), len(ids) - 1), messages
        ids = [*self.ids, *encode(lab.tokenizer, prompt, lab.spec.vocab_size, first_turn=not self.ids)]
        return ids, cached, self._messages

    def _from_read(self, read: ReadPrompt) -> tuple[list[int], int, list[dict[str, str]]]:
        """As `_next_ids`, for a prompt that was read before."""
        if self.ids:
            raise SfiError("a ReadPrompt starts a new session; this one has text already")
        read.check(self.state.prompt.rows, self.state.prompt.accumulates)
        return list(read.ids), 0, []

    def _take(self, ids: list[int], kept: int, messages: list[dict[str, str]]) -> None:
        """Moves the session on to the coming turn's ids; nothing of the turn has been computed yet."""
        self.turn += 1
        self.state.cache.truncate(kept)
        self.ids, self._messages = list(ids), list(messages)
        self.tracker = SentenceTracker(self.lab.tokens, self.settings.enders)
        self._events = [self.tracker.push(token) for token in ids]
        self.prompt_sentence = self._events[-1].sentence

    def _remember_reply(self, result: Result) -> None:
        if self._messages and self._messages[-1]["role"] != "assistant":
            self._messages.append({"role": "assistant", "content": result.text})


def _config(lab: Lab, given: GenerationConfig | None, fields: dict[str, Any]) -> GenerationConfig:
    return generation_config(lab.model.generation_config, given, fields)


def _eos(lab: Lab, given: GenerationConfig | None, fields: dict[str, Any]) -> tuple[int, ...]:
    """Every EOS in use: the one given by name, else the given config's where it names any, else the model's."""
    own = fields.get("eos_token_id", given.eos_token_id if given is not None else None)
    if own is None:
        return lab.spec.eos_ids
    return tuple(own) if isinstance(own, (list, tuple)) else (own,)


def _stop_strings(stop: str | Sequence[str] | None) -> list[str]:
    words = [stop] if isinstance(stop, str) else list(stop or ())
    wrong = [word for word in words if not isinstance(word, str) or not word]
    if wrong or stop == "":
        raise SfiError(f"stop string {wrong[0]!r} is not allowed; allowed: text of at least one character")
    return words


def _forced(force: Sequence[int], room: int, vocab_size: int) -> tuple[int, ...]:
    try:
        ids = tuple(int(token) for token in force)
    except (TypeError, ValueError):
        ids = (-1,)
    if ids and (min(ids) < 0 or max(ids) >= vocab_size or len(ids) > room):
        raise SfiError(
            f"force takes up to {room} token ids from 0 to {vocab_size - 1} after this prompt; got {len(force)}"
        )
    return ids
