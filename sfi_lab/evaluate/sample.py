"""One task under every arm: the prompt read once, all runs from there, a row of numbers each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import torch
from torch import Tensor
from transformers import GenerationConfig

from sfi_lab.compat import call_model
from sfi_lab.decoder.batch import Job
from sfi_lab.decoder.prompt import Prompt
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.decoder.result import Result
from sfi_lab.decoder.rule_state import decoder_state
from sfi_lab.decoder.state import DecoderState
from sfi_lab.evaluate.arms import Arm
from sfi_lab.evaluate.memory import Batcher
from sfi_lab.settings import Settings
from sfi_lab.tasks import Task, generation_scores, perplexity, score

if TYPE_CHECKING:
    from sfi_lab.lab import Lab

ROWS = {
    "task": pl.String, "kind": pl.String, "scoring": pl.String, "metric": pl.String, "length": pl.Int32,
    "seed": pl.Int32, "fingerprint": pl.String, "depth": pl.Float64, "labels": pl.String, "method": pl.String, "budget": pl.Int32,
    "prompt_tokens": pl.Int32, "new_tokens": pl.Int32, "stop_reason": pl.String, "score": pl.Float64,
    "keys_read": pl.Float64, "read_share": pl.Float64, "scored_share": pl.Float64, "bytes_kept": pl.Int64,
    "dense_bytes": pl.Int64, "slow_steps": pl.Int32, "positions_remade": pl.Int32, "kl": pl.Float64, "top1": pl.Float64, "forced_steps": pl.Int32,
    "first_difference": pl.Int32, "equal_share": pl.Float64, "perplexity": pl.Float64, "repeated_4": pl.Float64,
    "loop_tokens": pl.Int32, "distinct_2": pl.Float64, "seconds": pl.Float64, "prefill_seconds": pl.Float64, "text": pl.String,
}  # fmt: skip


@dataclass(slots=True)
class Divergence:
    """KL(dense ‖ run) and agreement along tokens that both are fed; `watch` one run's logits after the dense run's.

    dense: log-probabilities float32 [V], one row a step. The first row comes from the prompt, which every method reads
    alike, so it isn't counted. A run that begins again (a smaller batch) begins here again too.
    """

    dense: list[Tensor] = field(default_factory=list)
    kl: list[Tensor] = field(default_factory=list)
    agrees: list[Tensor] = field(default_factory=list)

    def learn(self, step: int, logits: Tensor) -> None:
        """Takes in the dense run."""
        if step == 0:
            self.dense.clear()
        self.dense.append(logits.float().log_softmax(-1))

    def fork(self) -> Divergence:
        """To watch another run against the same dense one."""
        return Divergence(self.dense)

    def watch(self, step: int, logits: Tensor) -> None:
        """Takes in a run that is fed the dense run's tokens."""
        if step == 0:
            self.kl.clear()
            self.agrees.clear()
            return
        dense, run = self.dense[step], logits.float().log_softmax(-1)
        self.kl.append((dense.exp() * (dense - run)).sum().clamp_min(0.0))
        self.agrees.append((dense.argmax() == run.argmax()).float())

    @property
    def same(self) -> bool:
        """Whether the likeliest token was dense's at every step, so that a greedy run makes dense's tokens."""
        return all(bool(agrees) for agrees in self.agrees)

    def numbers(self) -> dict[str, Any]:
        """kl (nats, mean over steps), top1 (share of steps with dense's likeliest token), forced_steps."""
        if not self.kl:
            return {"kl": None, "top1": None, "forced_steps": 0}
        return {
            "kl": float(torch.stack(self.kl).mean()),
            "top1": float(torch.stack(self.agrees).mean()),
            "forced_steps": len(self.kl),
        }


class Sample:
    """One task in the work: its dense run, then every arm along dense's tokens, then those by themselves that leave them."""

    def __init__(self, lab: Lab, task: Task, arms: Sequence[Arm], read: ReadPrompt, seconds: float) -> None:
        self.lab, self.task, self.read, self.seconds = lab, task, read, seconds
        self.arms = list(arms[1:])
        self.given = tuple(encode_continuation(lab, task))
        self._dense_arm = arms[0]
        self._dense = Divergence()
        self._watched: list[Divergence] = []
        self._results: list[Result] = []  # one an arm, as scored

    def first_job(self) -> Job:
        """The dense run: greedy, or along the given text."""
        return self._job(self._dense_arm, self._dense.learn, self.given)

    def forced_jobs(self, dense: Result) -> list[Job]:
        """Every arm along the dense run's tokens."""
        self._watched = [self._dense.fork() for _ in self.arms]
        pairs = zip(self.arms, self._watched, strict=True)
        return [self._job(arm, watched.watch, dense.token_ids) for arm, watched in pairs]

    def free_jobs(self, forced: Sequence[Result]) -> list[Job]:
        """The arms that would have left the dense run's tokens, by themselves; the others' greedy runs are those tokens."""
        self._results = list(forced)
        return [self._job(self.arms[i], None, ()) for i in self._leave()]

    def rows(self, dense: Result, free: Sequence[Result]) -> pl.DataFrame:
        """A row an arm, dense first; free: the results of `free_jobs`."""
        left = dict(zip(self._leave(), free, strict=True))
        rows = [
            self._row(self._dense_arm, dense, dense, {"kl": 0.0, "top1": 1.0, "forced_steps": len(dense.steps) - 1})
        ]
        for i, arm in enumerate(self.arms):
            result = left.get(i, self._results[i])
            if i not in left:
                result.text, result.stop_reason = dense.text, dense.stop_reason
            rows.append(self._row(arm, result, dense, self._watched[i].numbers()))
        return pl.DataFrame(rows, schema=ROWS)

    def _leave(self) -> list[int]:
        """Arms whose likeliest token was another than dense's at some step, where the task doesn't give the text."""
        return [] if self.given else [i for i, watched in enumerate(self._watched) if not watched.same]

    def _job(self, arm: Arm, watch: Any, force: Sequence[int]) -> Job:
        return Job(self.read, arm.settings, self.task.max_new_tokens, arm.method, self._options(watch, force))

    def _options(self, watch: Any, force: Sequence[int]) -> dict[str, Any]:
        stop = self.task.stop if not self.given and self.task.scoring == "answers" else ()
        # plain greedy, whatever the model's own generation config says: the likeliest token, nothing penalised
        return {
            "watch": watch,
            "force": tuple(force),
            "stop": stop,
            "generation_config": GenerationConfig(do_sample=False),
        }

    def _row(self, arm: Arm, result: Result, dense: Result, divergence: dict[str, Any]) -> dict[str, Any]:
        task, decoded = self.task, result.steps[1:]
        available = sum(step.keys_available for step in decoded)
        share = lambda total: total / available if available else None  # noqa: E731
        length = result.steps[-1].keys_available
        return {
            "task": task.name, "kind": task.kind, "scoring": task.scoring, "metric": task.metric,
            "length": task.length, "seed": task.seed, "fingerprint": task.fingerprint, "depth": task.depths[0] if task.depths else None,
            "labels": ";".join(f"{name}={value}" for name, value in task.labels),
            "method": arm.method.label, "budget": arm.budget, "prompt_tokens": len(self.read.ids),
            "new_tokens": len(result.steps), "stop_reason": result.stop_reason,
            "score": score(task, result.text) if task.scoring == "answers" else None,
            "keys_read": sum(step.keys_read for step in decoded) / len(decoded) if decoded else None,
            "read_share": share(sum(step.keys_read for step in decoded)),
            "scored_share": share(sum(step.keys_scored for step in decoded)),
            "bytes_kept": result.bytes_kept, "dense_bytes": self._dense_bytes(length),
            "slow_steps": result.slow_steps, "positions_remade": result.positions_remade, **divergence, **self._text_scores(result, dense),
            "seconds": result.seconds, "prefill_seconds": self.seconds, "text": result.text,
        }  # fmt: skip

    def _dense_bytes(self, length: int) -> int:
        """Bytes of keys and values that dense decoding holds at this length, layers with full attention alone."""
        full = [c for c, kind in zip(self.read.cache.full, self.lab.spec.layer_kinds, strict=True) if kind == "full"]
        return sum(cache.nbytes // cache.length for cache in full) * length

    def _text_scores(self, result: Result, dense: Result) -> dict[str, Any]:
        logprobs = None
        if self.given:
            logprobs = [step.logprob for step in result.steps]
            return {"perplexity": perplexity(logprobs)}
        if self.task.scoring == "generation":
            logprobs = dense_logprobs(self.lab, self.read, result.token_ids)
        found = generation_scores(result.token_ids, logprobs, dense.token_ids)
        names = ("perplexity", "repeated_4", "loop_tokens", "distinct_2", "first_difference", "equal_share")
        return {name: found[name] for name in names}


def read_task(lab: Lab, task: Task, rows: int, accumulates: bool) -> ReadPrompt:
    """Reads a task's prompt, keeping what `needs` says that the arms ask for."""
    return ReadPrompt.read(lab, prompt_of(lab, task), rows, accumulates)


def prompt_of(lab: Lab, task: Task) -> Prompt:
    """A task's prompt as the decoder takes it: a message where it is meant for a chat and the model knows how."""
    if task.chat and getattr(lab.tokenizer, "chat_template", None):
        return [{"role": "user", "content": task.prompt}]
    return task.prompt


def needs(lab: Lab, arms: Sequence[Arm]) -> tuple[int, bool]:
    """(last queries of a prompt, attention received) that the arms' sequences ask for."""
    facts = [decoder_state(arm.method, arm.method.settings(arm.settings), lab.spec).prompt for arm in arms]
    return max(fact.rows for fact in facts), any(fact.accumulates for fact in facts)


def encode_continuation(lab: Lab, task: Task) -> list[int]:
    """Ids of the text that the task gives to be scored, at most `max_new_tokens`; empty where the model writes its own."""
    ids = lab.tokenizer(task.continuation, add_special_tokens=False)["input_ids"] if task.continuation else []
    return ids[: task.max_new_tokens]


@torch.inference_mode()
def dense_logprobs(lab: Lab, read: ReadPrompt, tokens: Sequence[int]) -> list[float]:
    """Log-probability (nats) of each token under the dense model after the prompt and the tokens before it."""
    rows = [read.logits.float()[None]]
    if len(tokens) > 1:
        state = DecoderState(lab.spec.layer_kinds, Settings.dense())
        state.cache = read.cache.copy()
        at = torch.arange(len(read.ids), len(read.ids) + len(tokens) - 1, device=lab.device)[None]
        with lab.decoding(), lab.attending(state):
            ids = torch.tensor([list(tokens[:-1])], device=lab.device)
            rows.append(call_model(lab.model, ids, state.cache, at, len(tokens) - 1)[0].float())
    logits = torch.cat(rows)
    picked = logits.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0]
    return (picked - logits.logsumexp(-1)).tolist()


def evaluate_tasks(batcher: Batcher, samples: Sequence[Sample]) -> list[pl.DataFrame]:
    """Rows of several samples whose runs share batches: dense, then along dense's tokens, then what left them."""
    dense = batcher.generate([sample.first_job() for sample in samples])
    forced = _together(batcher, [sample.forced_jobs(first) for sample, first in zip(samples, dense, strict=True)])
    free = _together(batcher, [sample.free_jobs(results) for sample, results in zip(samples, forced, strict=True)])
    return [sample.rows(first, own) for sample, first, own in zip(samples, dense, free, strict=True)]


def _together(batcher: Batcher, jobs: Sequence[list[Job]]) -> list[list[Result]]:
    """All samples' jobs in common batches; the results, sample by sample."""
    results = iter(batcher.generate([job for of_one in jobs for job in of_one]))
    return [[next(results) for _ in of_one] for of_one in jobs]
