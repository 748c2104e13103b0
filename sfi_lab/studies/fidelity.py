"""The fidelity study: runs against dense, teacher-forced and free-running, beside dense against itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sfi_lab.analysis.fidelity import compare_logits, fidelity, first_divergence, summary
from sfi_lab.analysis.replay import LayerReplay
from sfi_lab.analysis.statistics import bootstrap_mean, spearman
from sfi_lab.decoder import Result
from sfi_lab.settings import Settings
from sfi_lab.studies.controls import _spread
from sfi_lab.studies.forced import SlowFast, forced_pass, plan_steps
from sfi_lab.studies.reference import Reference, prompt_row
from sfi_lab.studies.report import table, with_interval
from sfi_lab.tasks import score

if TYPE_CHECKING:
    from sfi_lab.studies.store import Store

FLOOR = "dense (noise floor)"


def run_prompt(reference: Reference, base: Settings, layers: int = 6) -> dict[str, pl.DataFrame]:
    """Teacher-forced and free-running fidelity of `base` and of the released preset at its K; tables "runs" and "prompts".

    `kept` is on some layers, the same in every row. Free-running rows are greedy and audited: the dense model follows the run's own tokens.
    """
    prefix, tokens = reference.prefix, reference.tokens
    dense = forced_pass(prefix, tokens, None)
    _, stepwise = prefix.forced(Settings.dense(), tokens)
    rows = [_forced_row(FLOOR, compare_logits(dense.logits[1:], stepwise[1:], tokens[1:]), 1.0, 1.0)]
    del stepwise
    greedy = prefix.free(Settings.dense(), len(tokens))
    rows.append(_free_row(FLOOR, reference, greedy, greedy))
    chosen = _spread(reference.trace.qk_layers, layers)
    columns = [reference.trace.qk_layers.index(layer) for layer in chosen]
    replays = [LayerReplay(reference.trace, layer, output_error=False) for layer in chosen]
    for name, settings in arms(base).items():
        run = forced_pass(prefix, tokens, SlowFast(settings, plan_steps(prefix, tokens, settings)))
        row = _forced_row(
            name,
            compare_logits(dense.logits[1:], run.logits[1:], tokens[1:]),
            run.read_share,
            float(run.kept[:, columns].mean()),
        )
        proxy = sum(float(replay.run(settings).kept.mean()) for replay in replays) / len(replays)
        rows.append(row | {"proxy_kept": proxy})
        with tempfile.TemporaryDirectory() as folder:
            result = prefix.free(
                settings, len(tokens), record="audit", record_layers=chosen, trace=Path(folder) / "trace"
            )
            audited = fidelity(result.trace)
        rows.append(
            _free_row(name, reference, result, greedy)
            | {"proxy_kept": proxy}
            | {k: audited[k] for k in ("kl", "kl_p95", "top1", "kept")}
        )
    columns = (
        "first_divergence",
        "same_tokens",
        "score",
        "task",
        "task_length",
        "proxy_kept",
        "perplexity",
        "perplexity_dense",
    )
    filled = [dict.fromkeys(columns) | row for row in rows]
    return {"runs": pl.DataFrame(filled, infer_schema_length=None), "prompts": pl.DataFrame([prompt_row(reference)])}


def arms(base: Settings) -> dict[str, Settings]:
    """The settings compared: the study's own, and the released preset at the same K, sink and recent."""
    return {"settings": base, "released preset": Settings.released(k=base.k, recent=base.recent, sink=base.sink)}


def _forced_row(name: str, compared: pl.DataFrame, read_share: float, kept: float) -> dict:
    found = summary(compared)
    return {
        "run": name, "how": "teacher-forced", "steps": found["rows"], "read_share": read_share, "kl": found["kl"], "kl_p95": found["kl_p95"],
        "top1": found["top1"], "kept": kept, "perplexity": found["perplexity"], "perplexity_dense": found["perplexity_reference"],
    }  # fmt: skip


def _free_row(name: str, reference: Reference, result: Result, greedy: Result) -> dict:
    a, b = result.token_ids, greedy.token_ids
    at = first_divergence(a, b)
    task = reference.material.task
    return {
        "run": name, "how": "free-running", "steps": len(a) - 1, "read_share": result.keys_read_share, "kl": 0.0, "kl_p95": 0.0, "top1": 1.0,
        "kept": 1.0, "first_divergence": at, "same_tokens": (len(a) if at is None else at) / len(a),
        "score": None if task is None else score(task, result.text),
        "task": None if task is None else task.kind,
        "task_length": None if task is None else task.length,
    }  # fmt: skip


def finish(store: Store, names: list[str]) -> tuple[dict[str, pl.DataFrame], list[tuple[str, str]], dict]:
    """Tables, report sections and the JSON summary of the prompts that are done."""
    runs, prompts = store.frame("runs", names), store.frame("prompts", names)
    means = pl.concat(_means(how, name, part) for (how, name), part in runs.group_by("how", "run", maintain_order=True))
    forced = means.filter(pl.col("how") == "teacher-forced").drop("how", "same_tokens", "score", "tasks", "diverged")
    free = means.filter(pl.col("how") == "free-running").drop("how", "perplexity_ratio")
    sparse = runs.filter((pl.col("how") == "free-running") & pl.col("proxy_kept").is_not_null())
    gap = bootstrap_mean(sparse["proxy_kept"] - sparse["kept"])
    proxy = (
        f"Kept mass of a free-running run, predicted from the recorded dense trajectory: mean prediction minus measurement {gap.value:+.4f} "
        f"[{gap.low:+.4f}, {gap.high:+.4f}], mean absolute difference {(sparse['proxy_kept'] - sparse['kept']).abs().mean():.4f}, rank correlation "
        f"over runs {spearman(sparse['proxy_kept'], sparse['kept']):.2f}; its missed mass with the run's KL {spearman(1 - sparse['proxy_kept'], sparse['kl']):.2f}. "
        "The two runs follow different texts, so a perfect agreement can't be expected."
    )  # fmt: skip
    shown = {
        "kl": "KL, nats",
        "top1": "top-1 agreement",
        "perplexity_ratio": "perplexity ÷ dense",
        "same_tokens": "share before the first difference",
    }
    parts = [
        ("Teacher-forced", "All runs are fed the same tokens: given text, or text drawn from the dense model.\n\n" + table(forced, 4, shown)),
        ("Free-running", "Greedy; the dense model follows each run's own tokens, except in `same tokens`, which compares with dense greedy decoding.\n\n" + table(free, 3, shown)),
        ("How well the proxy predicts the re-run", proxy),
        ("Retrieval by context length", _retrieval(runs)),
        ("Noise floor", "KL of dense decoding, step by step, to the same tokens in one dense forward: what the order of sums alone does."),
        ("Prompts", table(prompts.drop("text"), 0)),
    ]  # fmt: skip
    tables = {"summary": means, "runs": runs, "prompts": prompts}
    return tables, parts, {"summary": means.to_dicts(), "proxy": {"bias": gap.value, "low": gap.low, "high": gap.high}}


def _retrieval(runs: pl.DataFrame) -> str:
    """Exact scores of the retrieval tasks, by run, kind and length."""
    scored = runs.filter(pl.col("score").is_not_null())
    if not scored.height:
        return "No retrieval task was among the prompts."
    by = scored.group_by("task", "task_length", "run", maintain_order=True).agg(pl.col("score").mean())
    return table(by.pivot("run", index=["task", "task_length"], values="score").sort("task", "task_length"), 2)


def _means(how: str, name: str, part: pl.DataFrame) -> pl.DataFrame:
    def shown(values: pl.Series) -> dict:
        e = bootstrap_mean(values.drop_nulls().cast(pl.Float64).to_list())
        return {
            "value": None if e.n == 0 else e.value,
            "low": None if e.low != e.low else e.low,
            "high": None if e.high != e.high else e.high,
        }

    def cell(column: pl.Series, digits: int = 4) -> str | None:
        frame = pl.DataFrame([shown(column)], schema=dict.fromkeys(("value", "low", "high"), pl.Float64))
        return frame.select(with_interval(digits=digits).alias("text"))["text"][0]

    ratio = part["perplexity"] / part["perplexity_dense"]
    scored = part["score"].drop_nulls()
    return pl.DataFrame(
        {
            "how": how, "run": name, "prompts": part.height, "read_share": part["read_share"].mean(), "kl": cell(part["kl"], 6 if name == FLOOR else 4),
            "kl_p95": part["kl_p95"].mean(), "top1": cell(part["top1"], 3), "kept": cell(part["kept"], 4), "perplexity_ratio": cell(ratio),
            "diverged": part["first_divergence"].drop_nulls().len(), "same_tokens": cell(part["same_tokens"], 3),
            "tasks": len(scored), "score": scored.mean(),
        },
        schema_overrides={"score": pl.Float64},
    )  # fmt: skip
