"""Made-up samples in the shape that `sfi-lab evaluate` writes: seeded, with known orders, and the summary that follows from them."""

from pathlib import Path

import numpy as np
import polars as pl

from sfi_lab.analysis.statistics import Estimate, bootstrap_mean, paired_difference

KINDS = ("single_needle", "multi_key", "fact_qa")
LENGTHS = (512, 1024, 2048)
BUDGETS = (64, 128, 256)
# quality at a budget of all keys lost, how fast it comes back, keys scored beside those read, refresh interval (0: never)
CHARACTER = {
    "sfi": (0.30, 0.9, 0.0, 24), "sfi_pinned": (0.26, 0.9, 0.0, 24), "sfi_rectified": (0.24, 1.0, 0.0, 24), "interval": (0.31, 0.9, 0.0, 32),
    "drift": (0.29, 0.9, 0.0, 28), "streaming": (0.85, 0.5, 0.0, 0), "snapkv": (0.35, 1.1, 0.0, 0), "pyramidkv": (0.38, 1.1, 0.0, 0),
    "tova": (0.50, 0.8, 0.0, 0), "h2o": (0.55, 0.8, 0.0, 0), "knorm": (0.90, 0.4, 0.0, 0), "quest": (0.12, 1.2, 0.125, 0), "oracle": (0.02, 1.5, 1.0, 0),
}  # fmt: skip


def samples(seed: int = 0, n: int = 12, methods: tuple[str, ...] = tuple(CHARACTER)) -> pl.DataFrame:
    """Dense and each method on the same prompts: answers of three kinds at three lengths, and teacher-forced text."""
    rng = np.random.default_rng(seed)
    rows = []
    for kind in (*KINDS, "perplexity:pydoc"):
        for length in LENGTHS:
            for i in range(n):
                hard = rng.random()
                depth = float(rng.random()) if kind == "single_needle" else None
                task = {"task": f"{kind}-{length}-{i}", "kind": kind, "length": length, "seed": i, "depth": depth}
                rows.append(_row(rng, task, "dense", None, hard))
                rows += [_row(rng, task, m, b, hard) for m in methods for b in BUDGETS]
    whole = ("length", "seed", "budget", "prompt_tokens", "new_tokens", "slow_steps", "first_difference")
    types = {**dict.fromkeys(whole, pl.Int32), "bytes_kept": pl.Int64, "dense_bytes": pl.Int64, "depth": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)


def _row(rng: np.random.Generator, task: dict, method: str, budget: int | None, hard: float) -> dict:
    answers, length = not task["kind"].startswith("perplexity"), task["length"]
    lost, back, scored, every = CHARACTER.get(method.split(":")[0], (0.0, 1.0, 0.0, 0))
    share = (
        1.0
        if budget is None
        else min(1.0, budget / length) * (1 - (every > 0) / max(1, every)) + (every > 0) / max(1, every)
    )
    loss = 0.0 if budget is None else lost * (1 - min(1.0, budget / length) ** (1 / (1 + back)))
    score = float(hard < 0.85 - loss) if answers else None
    kl = 0.0 if budget is None else float(loss**2 * np.exp(rng.normal(0, 0.6)) + 1e-4)
    return task | {
        "scoring": "answers" if answers else "perplexity", "metric": "contains" if answers else "", "method": method, "budget": budget,
        "prompt_tokens": length, "new_tokens": 12, "score": score, "keys_read": share * length, "read_share": share, "scored_share": scored,
        "bytes_kept": int(share * length * 46080), "dense_bytes": length * 46080, "slow_steps": 12 // every if every else 0, "kl": kl,
        "top1": float(np.exp(-kl)), "first_difference": 5 if loss > 0.2 else None, "equal_share": float(np.exp(-2 * kl)),
        "perplexity": None if answers else float(np.exp(2.3 + kl)), "repeated_4": 0.02, "seconds": 0.5, "text": "…",
    }  # fmt: skip


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """What evaluate makes of samples: by group, length, method and budget, with paired intervals to dense."""
    answers = rows.filter(pl.col("scoring") == "answers")
    groups = {"all": answers} | {
        kind: rows.filter(pl.col("kind") == kind) for kind in rows["kind"].unique(maintain_order=True)
    }
    out = []
    for group, part in groups.items():
        for length in (0, *LENGTHS):
            here = part if length == 0 else part.filter(pl.col("length") == length)
            dense = here.filter(pl.col("method") == "dense")
            for (method, budget), mine in here.group_by("method", "budget", maintain_order=True):
                pair = mine.join(dense.select("task", dense_score="score"), on="task", maintain_order="left")
                level = bootstrap_mean(mine["score"].cast(pl.Float64).to_numpy(), draws=100)
                gap = paired_difference(
                    pair["score"].cast(pl.Float64).to_numpy(),
                    pair["dense_score"].cast(pl.Float64).to_numpy(),
                    draws=100,
                )
                kl = bootstrap_mean(mine["kl"].to_numpy(), draws=100)
                if method == "dense":
                    gap = Estimate(None, None, None, None)  # it has nothing to be compared with
                found = (
                    None
                    if method == "dense"
                    else "no difference found"
                    if not gap.p < 0.05
                    else "worse"
                    if gap.value < 0
                    else "better"
                )
                out.append(
                    {
                        "group": group, "length": length, "method": method, "budget": budget, "n": mine.height, "score": level.value,
                        "score_low": level.low, "score_high": level.high, "difference": gap.value, "difference_low": gap.low,
                        "difference_high": gap.high, "p": gap.p, "verdict": found, "read_share": mine["read_share"].mean(),
                        "scored_share": mine["scored_share"].mean(), "kept_share": 1.0, "kl": kl.value, "kl_low": kl.low, "kl_high": kl.high,
                        "top1": mine["top1"].mean(), "perplexity": mine["perplexity"].mean(), "seconds_per_token": 0.05,
                    }
                )  # fmt: skip
    types = {"budget": pl.Int32, "length": pl.Int32, "perplexity": pl.Float64}
    return pl.DataFrame(out, schema_overrides=types, infer_schema_length=None)


def write(folder: Path, **how) -> Path:
    """samples.parquet and summary.parquet in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = samples(**how)
    made.write_parquet(folder / "samples.parquet")
    summary(made).write_parquet(folder / "summary.parquet")
    return folder
