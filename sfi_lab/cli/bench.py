"""`sfi-lab bench …`: benchmarks that print ratios and shares of a bound, one a line."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from sfi_lab.cli.options import add_model
from sfi_lab.errors import SfiError

_COLUMNS = (
    "config",
    "arm",
    "context",
    "batch",
    "kept",
    "refresh",
    "slow_share",
    "ms",
    "ms_p99",
    "tokens_per_second",
    "gb_per_s",
    "bound_share",
    "over_dense",
)


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "bench", help="benchmarks", description="Benchmarks that print a ratio or a share of a bound."
    )
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    overhead = what.add_parser(
        "overhead",
        help="what the loop and the recording cost beside the model's forward",
        description="Shares of a step that the loop's own work and 'support' recording take, from one run.",
    )
    add_model(overhead)
    overhead.add_argument(
        "--prompt-tokens", type=int, default=2048, metavar="N", help="length of the prompt (default: %(default)s)"
    )
    overhead.add_argument(
        "--new-tokens", type=int, default=96, metavar="N", help="decode steps of each arm (default: %(default)s)"
    )
    overhead.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="times each arm runs, in turn (default: %(default)s)"
    )
    overhead.add_argument("--json", action="store_true", help="print one JSON object")
    overhead.set_defaults(run=run_overhead)
    _add_decode(what)
    kernel = what.add_parser(
        "kernel",
        help="the attention kernels alone",
        description="Dense and sparse decode attention of one layer, beside torch's SDPA.",
    )
    _add_common(kernel, "qwen3-4b", "tiny", 4)
    kernel.set_defaults(run=run_kernel)
    selector = what.add_parser(
        "selector",
        help="one layer's refresh alone",
        description="Selector, Top-K and packing of one layer, beside the same in torch operations.",
    )
    _add_common(selector, "qwen3-0.6b", "tiny", 1)
    selector.add_argument(
        "--k", type=int, default=2048, metavar="K", help="positions selected a KV head (default: %(default)s)"
    )
    selector.set_defaults(run=run_selector)
    pipeline = what.add_parser(
        "pipeline",
        help="a slow step's timeline by stream",
        description="When each layer's attention, selector and packing ran.",
    )
    _add_common(pipeline, "qwen3-0.6b", "tiny", 8)
    pipeline.add_argument(
        "--k", type=int, default=2048, metavar="K", help="positions selected a KV head (default: %(default)s)"
    )
    pipeline.add_argument(
        "--trace", metavar="DIR", help="also write DIR/timeline and DIR/timeline.json (Chrome, Perfetto)"
    )
    pipeline.set_defaults(run=run_pipeline)
    agreement = what.add_parser(
        "agreement",
        help="the engine's tokens against the reference loop's on the CPU",
        description="Greedy decoding in float32 under the paper's, the released and dense settings.",
    )
    agreement.add_argument("--model", default="smollm2-135m", help="a name or path (default: %(default)s)")
    agreement.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"), help="the engine's (default: %(default)s)"
    )
    agreement.add_argument(
        "--prompt-tokens", type=int, default=3000, metavar="N", help="length of the prompt (default: %(default)s)"
    )
    agreement.add_argument(
        "--new-tokens", type=int, default=257, metavar="N", help="tokens decoded (default: %(default)s)"
    )
    agreement.add_argument(
        "--k", type=int, default=512, metavar="K", help="positions selected a KV head (default: %(default)s)"
    )
    agreement.add_argument("-o", "--output", metavar="FILE", help="also write the rows as Parquet")
    agreement.add_argument("--json", action="store_true", help="print one JSON object a row")
    agreement.set_defaults(run=run_agreement)


def _add_decode(what: argparse._SubParsersAction) -> None:
    decode = what.add_parser(
        "decode",
        help="decode steps of a whole model through the engine",
        description="Fast, slow and dense steps, and runs with a refresh forced every M steps, over random weights and K/V.",
    )
    _add_common(decode, "qwen3-0.6b", "tiny", 8)
    decode.add_argument(
        "--k", type=int, default=2048, metavar="K", help="positions selected a layer and KV head (default: %(default)s)"
    )
    decode.add_argument(
        "--recent", type=int, default=256, metavar="N", help="newest positions every step reads (default: %(default)s)"
    )
    decode.add_argument(
        "--refresh",
        type=int,
        action="append",
        metavar="M",
        help="a slow step every M-th; may be given again (default: 32, 20, 64)",
    )
    decode.add_argument("--steps", type=int, default=64, metavar="N", help="fast steps timed (default: %(default)s)")
    decode.add_argument(
        "--path",
        default="auto",
        choices=("auto", "fused", "plain"),
        help="layers in few launches, or the model's own modules (default: %(default)s)",
    )
    decode.add_argument("--no-pdl", action="store_true", help="launches wait for the one before to end")
    decode.add_argument("--no-sdpa", action="store_true", help="leave out the arm with torch's SDPA")
    decode.set_defaults(run=run_decode)


def _add_common(parser: argparse.ArgumentParser, config: str, small: str, batch: int) -> None:
    parser.add_argument(
        "--config", metavar="NAME", help=f"a named shape with random weights (default: {config}; on a CPU {small})"
    )
    parser.add_argument("--context", type=int, metavar="N", help="cached positions (default: 131072; on a CPU 1024)")
    parser.add_argument("--batch", type=int, metavar="B", help=f"sequences (default: {batch}; on a CPU 2)")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: %(default)s")
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float16", "float32"),
        help="bfloat16, float16 or float32 (default: bfloat16; on a CPU float32)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the rows as Parquet")
    parser.add_argument("--json", action="store_true", help="print one JSON object a row")
    parser.set_defaults(defaults=(config, small, batch))


def run_overhead(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.overhead import measure, report

    found = measure(
        arguments.model,
        arguments.device,
        arguments.dtype,
        arguments.prompt_tokens,
        arguments.new_tokens,
        arguments.rounds,
    )
    print(json.dumps(found) if arguments.json else report(found))
    return 0


def run_decode(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.decode import DecodeCase, measure
    from sfi_lab.runtime.engine import EngineOptions

    given = _common(arguments)
    cuda = given["device"] == "cuda"
    given["k"] = arguments.k if cuda else min(arguments.k, given["context"] // 8)
    given["recent"] = arguments.recent if cuda else min(arguments.recent, given["context"] // 8)
    steps = arguments.steps if cuda else min(arguments.steps, 8)
    refresh = tuple(arguments.refresh or (32, 20, 64))
    options = EngineOptions(path=arguments.path, pdl=not arguments.no_pdl)
    case = DecodeCase(**given, refresh=refresh, steps=steps, slow_steps=16 if cuda else 4, options=options)
    return _print(arguments, measure(case, sdpa=not arguments.no_sdpa))


def run_kernel(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.kernel import KernelCase, measure

    return _print(arguments, measure(KernelCase(**_common(arguments))))


def run_selector(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.selector import SelectorCase, measure

    return _print(arguments, measure(SelectorCase(**_common(arguments), k=arguments.k)))


def run_agreement(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.agreement import measure, report
    from sfi_lab.settings import Settings

    arms = [Settings.paper(k=arguments.k), Settings.released(k=arguments.k), Settings.dense()]
    rows = measure(arguments.model, _device(arguments.device), arguments.prompt_tokens, arguments.new_tokens, arms)
    rows = _with_command(arguments, rows)
    print("\n".join(json.dumps(row) for row in rows) if arguments.json else report(rows))
    return 0


def run_pipeline(arguments: argparse.Namespace) -> int:
    from sfi_lab.bench.pipeline import measure
    from sfi_lab.runtime.profile import write_timeline

    given = _common(arguments)
    rows = measure(**given, k=min(arguments.k, given["context"] // 8))
    if arguments.trace:
        write_timeline(arguments.trace, rows)
    rows = _with_command(arguments, [row | given for row in rows])
    if arguments.json:
        print("\n".join(json.dumps(row) for row in rows))
        return 0
    for row in rows:
        print(
            f"{row['layer']:>4}  {row['stream']:<9} {row['stage']:<10} {row['start_ms']:9.4f} to {row['end_ms']:9.4f} ms"
        )
    return 0


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    """Config, context, batch, device and dtype; small where there is no GPU. Raises SfiError for what isn't possible."""
    from sfi_lab.bench.configs import shape_of

    device = _device(arguments.device)
    config, small, batch = arguments.defaults
    cuda = device == "cuda"
    given = {
        "config": arguments.config or (config if cuda else small),
        "context": arguments.context or (131072 if cuda else 1024),
        "batch": arguments.batch or (batch if cuda else 2),
        "device": device,
        "dtype": arguments.dtype or ("bfloat16" if cuda else "float32"),
    }
    shape_of(given["config"])
    for name, least in (("context", 300), ("batch", 1)):
        if given[name] < least:
            raise SfiError(f"--{name} {given[name]} is not allowed; allowed: {least} or more")
    return given


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise SfiError("--device cuda was asked for, but torch sees no CUDA GPU here; give auto or cpu")
    return name


def _with_command(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row with the command that made it; all of them into the Parquet file, where one was named."""
    command = shlex.join(["sfi-lab", *(sys.argv[1:])])
    rows = [row | {"command": command} for row in rows]
    if arguments.output:
        import polars as pl

        path = Path(arguments.output)
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    return rows


def _print(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> int:
    rows = _with_command(arguments, rows)
    if arguments.json:
        print("\n".join(json.dumps(row) for row in rows))
        return 0
    shown = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
    table = [shown, *[["" if row.get(name) is None else str(row[name]) for name in shown] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)))
    first = rows[0]
    print(
        f"{first['device']} ({first['read_rate_gb_per_s']} GB/s read), torch {first['torch']}, transformers {first['transformers']}, {first['dtype']}"
    )
    return 0
