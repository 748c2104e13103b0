"""The demo recording, and made-up result tables in the shapes that studies and benchmarks write."""

from pathlib import Path

import matplotlib
import polars as pl
import pytest

from sfi_lab.figures import Material

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "traces" / "demo"
matplotlib.use("Agg")


@pytest.fixture(scope="session")
def demo() -> Material:
    """The demo recording; what figures compute on it is shared by the tests."""
    return Material.gather([DEMO])


@pytest.fixture
def results(tmp_path) -> Path:
    """A results folder: decode and kernel rows, a timeline, a controls study; and a study's work that must not be read."""
    folder = tmp_path / "results"
    (folder / "h200").mkdir(parents=True)
    (folder / "controls" / "work" / "p").mkdir(parents=True)
    decode().write_parquet(folder / "h200" / "decode.parquet")
    kernel().write_parquet(folder / "h200" / "kernel.parquet")
    timeline().write_parquet(folder / "h200" / "timeline.parquet")
    summary().write_parquet(folder / "controls" / "summary.parquet")
    arms().write_parquet(folder / "controls" / "arms.parquet")
    quality().write_parquet(folder / "controls" / "proxy.parquet")
    decode().with_columns(config=pl.lit("unfinished")).write_parquet(
        folder / "controls" / "work" / "p" / "rows.parquet"
    )
    return folder


def decode() -> pl.DataFrame:
    """Two configurations, three contexts; SFI doubles, quadruples and multiplies by eight what dense does."""
    rows = []
    for config, batch, speed in (("one", 8, 800.0), ("two", 4, 400.0)):
        for i, context in enumerate((8192, 32768, 131072)):
            dense = speed / 4**i
            arms = {
                "dense": (dense, None),
                "dense sdpa": (dense * 0.9, None),
                "fast": (dense * 50, None),
                "slow": (dense * 0.9, 1),
            }
            arms |= {f"sfi, refresh every {m}": (dense * 2 ** (i + 1) * (1 + (m - 32) / 320), m) for m in (20, 32, 64)}
            for arm, (tokens, refresh) in arms.items():
                row = {
                    "config": config,
                    "arm": arm,
                    "context": context,
                    "batch": batch,
                    "k": 2048,
                    "refresh": refresh,
                    "device": "some GPU",
                }
                rows.append(
                    row | {"ms": batch / tokens * 1e3, "bound_ms": batch / tokens * 800, "tokens_per_second": tokens}
                )
    return pl.DataFrame(rows, schema_overrides={"refresh": pl.Int64})


def kernel() -> pl.DataFrame:
    dense = {
        "bench": "kernel",
        "config": "one",
        "arm": "dense",
        "kept": None,
        "context": 16384,
        "batch": 16,
        "ms": 0.4,
        "device": "some GPU",
    }
    sparse = [
        dense | {"arm": "sparse", "kept": round(share * 16384), "ms": 0.4 * share} for share in (0.016, 0.125, 0.3, 1.0)
    ]
    other = [
        dense | {"context": 131072, "ms": 9.0},
        dense | {"arm": "sparse", "kept": 100, "context": 131072, "ms": 0.1},
    ]
    return pl.DataFrame([dense, *sparse, *other], schema_overrides={"kept": pl.Int64})


def timeline() -> pl.DataFrame:
    """Two layers, in µs: attention 0-10 and 14-24 on the main stream, Top-K 10-16 and 22-30 on the second one."""
    rows = [{"layer": -1, "stream": "main", "stage": "step", "start_ms": 0.0, "end_ms": 0.032}]
    for layer, attention, topk in ((0, (0, 10), (10, 16)), (1, (14, 24), (22, 30))):
        for stream, stage, (start, end) in (("main", "attention", attention), ("selector", "topk", topk)):
            rows.append(
                {"layer": layer, "stream": stream, "stage": stage, "start_ms": start / 1e3, "end_ms": end / 1e3}
            )
    return pl.DataFrame(rows, schema_overrides={"start_ms": pl.Float32, "end_ms": pl.Float32})


def summary() -> pl.DataFrame:
    def row(arm, group, ratio, equal=True):
        low, high = (None, None) if ratio is None else (ratio * 0.9, ratio * 1.1)
        return {
            "arm": arm, "group": group, "prompts": 12, "refreshes": 8.0, "equal_refreshes": equal, "kl_ratio": ratio, "kl_ratio_low": low,
            "kl_ratio_high": high, "p_holm": None if ratio is None else 0.01 if ratio > 1.5 else 0.6, "kept_gain": None if ratio is None else 0.01 * (1 - ratio),
            "kept_gain_low": None if ratio is None else -0.01, "kept_gain_high": None if ratio is None else 0.01, "kl": 0.05, "read_share": 0.2,
        }  # fmt: skip

    return pl.DataFrame(
        [
            row("sentence (reference)", "trigger", None), row("fixed period", "trigger", 1.02), row("query drift", "trigger", 0.97),
            row("next-sentence query", "query", 1.1), row("λ = 0", "selector", 0.99), row("pinned window", "window", 0.8),
            row("released preset", "preset", 2.0, False), row("dense again (noise floor)", "dense", None),
        ]
    )  # fmt: skip


def arms() -> pl.DataFrame:
    rows = [
        {"prompt": f"p{p}", "arm": arm, "group": group, "proxy_kept": 0.8 + 0.01 * p + shift, "kept_layers": 0.79 + 0.01 * p + shift,
         "proxy_error": 0.1 - shift, "kl": 0.05 - 0.4 * shift}
        for p in range(6) for arm, group, shift in (("fixed period", "trigger", 0.0), ("λ = 0", "selector", 0.05))
    ]  # fmt: skip
    return pl.DataFrame([*rows, rows[0] | {"arm": "oracle", "proxy_kept": None}])


def quality() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "what": "rank correlation, proxy kept with kept in the run",
                "prompts": 6,
                "value": 0.9,
                "low": 0.8,
                "high": 0.95,
            },
            {
                "what": "rank correlation, proxy output error with KL",
                "prompts": 6,
                "value": 0.7,
                "low": None,
                "high": None,
            },
        ]
    )
