"""A small evaluation with known numbers, in the shape that `sfi-lab evaluate` writes, summarised as it summarises."""

from pathlib import Path

import polars as pl

from sfi_lab.evaluate import ROWS, summarise

METHODS = {
    "sfi": (0.5, 0.3, 0.0),
    "snapkv": (0.3, 0.1, 0.0),
    "snapkv:window=16": (0.2, 0.12, 0.0),
    "oracle": (0.9, 0.1, 1.0),
}
BUDGETS, KINDS, LENGTHS = (64, 128), ("single_needle", "fact_qa", "perplexity:pydoc"), (512, 1024)


def samples(n=6):
    """Dense answers every prompt but each sixth; a method a fixed part of those, more with a larger budget."""
    rows = []
    for kind in KINDS:
        for length in LENGTHS:
            for i in range(n):
                rows.append(_row(kind, length, i, n, "dense", None, 1.0, 1.0, 0.0))
                for method, (answers, read, looked) in METHODS.items():
                    for step, budget in enumerate(BUDGETS):
                        rows.append(
                            _row(kind, length, i, n, method, budget, answers + 0.1 * step, read * (1 + step), looked)
                        )
    return pl.DataFrame(rows, schema=ROWS)


def _row(kind, length, i, n, method, budget, answers, read, looked):
    text, dense = kind.startswith("perplexity"), method == "dense"
    right = i % 6 != 5 and i < answers * n
    kl = 0.0 if dense else (1 - answers) * (1 + i / 10)
    return dict.fromkeys(ROWS) | {
        "task": f"{kind}-{length}-{i}", "kind": kind, "scoring": "perplexity" if text else "answers", "metric": "contains",
        "length": length, "seed": i, "labels": "", "method": method, "budget": budget, "prompt_tokens": length, "new_tokens": 9,
        "stop_reason": "max_new_tokens", "score": None if text else float(right), "keys_read": read * length,
        "read_share": read, "scored_share": looked, "bytes_kept": int(read * 1000), "dense_bytes": 1000, "slow_steps": 0, "kl": kl,
        "top1": 1.0, "forced_steps": 8, "equal_share": 1.0, "perplexity": 8.0 * (1 + kl) if text else None, "seconds": 0.5,
        "prefill_seconds": 0.1, "text": f" <b>{method}</b>\nanswers {'rightly' if right else 'wrongly'} " + "and so on " * 12,
    }  # fmt: skip


def write_results(folder, n=6):
    """samples.parquet and summary.parquet in a folder; returns it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = samples(n)
    made.write_parquet(folder / "samples.parquet")
    summarise(made).write_parquet(folder / "summary.parquet")
    return folder
