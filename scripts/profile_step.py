"""Profiles one slow step on the engine and writes its timeline, for the pipeline figure and for Perfetto.

    python scripts/profile_step.py --config qwen3-0.6b --context 131072 --batch 8 -o data/results/pipeline

Random weights and random keys and values: the step's work is that of a real one, its text is not. With --no-overlap the
selector stays on the main stream. OUT/timeline/part-00000.parquet is the table, OUT/timeline.json opens in Perfetto.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from sfi_lab.bench.configs import random_model
from sfi_lab.bench.decode import fill_random
from sfi_lab.loading.spec import ModelSpec
from sfi_lab.runtime.engine import Engine
from sfi_lab.runtime.profile import timeline, write_timeline
from sfi_lab.settings import Settings


def main(arguments: argparse.Namespace) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    room = arguments.context + 64
    model = random_model(arguments.config, room, device, dtype)
    settings = Settings.paper(k=arguments.k, recent=arguments.recent, trigger="period", period=1, t_max=0)
    engine = Engine(model, ModelSpec.from_model(model), settings, arguments.batch, room)
    fill_random(engine, arguments.context)
    if arguments.no_overlap:
        engine.attention.side = None
    rows = timeline(engine, "slow")
    write_timeline(arguments.out, rows)
    whole = next(row for row in rows if row["stage"] == "step")
    print(f"{len(rows)} rows, {whole['end_ms'] - whole['start_ms']:.3f} ms on {device.type}, in {arguments.out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Profiles one slow step on the engine.")
    parser.add_argument(
        "--config", default="qwen3-0.6b", help="a named shape of sfi_lab.bench.configs (default: %(default)s)"
    )
    parser.add_argument("--context", type=int, default=131072, help="cached positions (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="sequences (default: %(default)s)")
    parser.add_argument(
        "--k", type=int, default=2048, help="positions selected a layer and KV head (default: %(default)s)"
    )
    parser.add_argument(
        "--recent", type=int, default=256, help="newest positions every step reads (default: %(default)s)"
    )
    parser.add_argument("--no-overlap", action="store_true", help="keep the selector on the main stream")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the timeline")
    main(parser.parse_args())
