"""`sfi-lab figures`: paper-style figures and tables from traces and results."""

from __future__ import annotations

import argparse
import json
import shlex
import sys


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "figures",
        help="paper-style figures and tables",
        description="Makes figures (PDF, SVG, PNG) and tables (LaTeX, Markdown) from traces and results, with captions.md and "
        "manifest.json. One whose data isn't there is listed with the command that makes it; the rest is made.",
    )
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="a trace folder")
    parser.add_argument(
        "--results", action="append", default=[], metavar="DIR", help="a folder of result tables; may be given again"
    )
    parser.add_argument(
        "-o", "--out", default="figures", metavar="DIR", help="where the files go (default: %(default)s)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME,…", help="these alone; --list names all")
    parser.add_argument("--format", default="pdf,svg,png", metavar="F,F", help="of the figures (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print every name with the data it needs, and make nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from sfi_lab.figures import Material, make  # heavy: matplotlib

    if arguments.list:
        return _list(arguments.json)
    material = Material.gather(arguments.traces, arguments.results)
    report = make(
        material,
        arguments.out,
        _split(arguments.only),
        _split([arguments.format]),
        _command(arguments),
        _progress(arguments.json),
    )
    if arguments.json:
        found = {
            "made": {m.name: sorted(m.files) for m in report.made},
            "missing": {m.name: m.command or m.why for m in report.missing},
        }
        print(json.dumps({"out": arguments.out, **found}, ensure_ascii=False))
        return 0
    for made in report.made:
        print(f"made     {made.name:<14} {', '.join(sorted(made.files))}")
    for lacks in report.missing:
        print(f"missing  {lacks.name:<14} {lacks.why}" + (f"; this makes it: {lacks.command}" if lacks.command else ""))
    print(f"{len(report.made)} in {arguments.out}, {len(report.missing)} missing")
    return 0


def _list(as_json: bool) -> int:
    from sfi_lab.figures.registry import NAMES, recipe

    found = {name: {"title": recipe(name).TITLE, "needs": recipe(name).NEEDS} for name in NAMES}
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for name, about in found.items():
            print(f"{name:<14} {about['title']}; needs {about['needs']}")
    return 0


def _split(given: list[str]) -> list[str]:
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _command(arguments: argparse.Namespace) -> str:
    """The command in one spelling, whatever order it was typed in."""
    words = ["sfi-lab", "figures", *arguments.traces]
    words += [word for folder in arguments.results for word in ("--results", folder)]
    words += ["-o", arguments.out]
    if arguments.only:
        words += ["--only", ",".join(_split(arguments.only))]
    return shlex.join([*words, "--format", arguments.format])


def _progress(quiet: bool):
    if quiet or not sys.stderr.isatty():
        return None
    return lambda name: print(f"\r\x1b[K{name} …", end="\r", file=sys.stderr)
