"""`sfi-lab trace info DIR`: what a recorded run was and did."""

from __future__ import annotations

import argparse
import json

from sfi_lab.trace import Trace


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser("trace", help="look at a recorded run", description="Looks at a recorded run.")
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    info = what.add_parser("info", help="a recorded run in a few facts", description="A recorded run in a few facts.")
    info.add_argument("trace", metavar="DIR", help="a trace folder")
    info.add_argument("--json", action="store_true", help="print one JSON object")
    info.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    facts = Trace.open(arguments.trace).info()
    if arguments.json:
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    there = {name: value for name, value in facts.items() if value is not None}  # older recordings lack some columns
    width = max(map(len, there))
    for name, value in there.items():
        print(f"{name.replace('_', ' '):<{width}}  {_readable(name, value)}")
    return 0


def _readable(name: str, value: object) -> str:
    if name in ("bytes", "bytes_kept"):
        return f"{value / 1e6:.1f} MB"
    if name == "keys_read_share":
        return f"{value:.1%}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items()) or "-"
    if isinstance(value, list):
        whole = len(value) > 2 and value == list(range(value[0], value[-1] + 1))
        return f"{value[0]} to {value[-1]}" if whole else ", ".join(map(str, value)) or "-"
    return str(value)
