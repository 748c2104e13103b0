"""`sfi-lab bench …`: benchmarks that print ratios, run one a line."""

from __future__ import annotations

import argparse
import json

from sfi_lab.cli.options import add_model


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
