"""`sfi-lab study …`: a study end to end; a killed one goes on when the same command is given again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sfi_lab.cli.options import add_model, add_settings, settings_from
from sfi_lab.errors import SfiError

_STUDIES = {
    "stability": "how alike attention supports are within a sentence and across a boundary",
    "controls": "triggers, selector stages, windows and presets at equal refresh count and equal K",
    "fidelity": "KL, agreement, divergence, perplexity and task scores against dense decoding",
    "tune": "the settings that keep the most attention for the fewest keys, confirmed by re-runs",
}
_MATERIAL = "project,pydoc:6,tasks:4"


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "study",
        help="run a study over many prompts",
        description="Runs a study and writes Parquet tables and report.md.",
    )
    what = parser.add_subparsers(dest="what", required=True, metavar="STUDY")
    for name, words in _STUDIES.items():
        study = what.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
        study.add_argument(
            "-o",
            "--out",
            required=True,
            metavar="DIR",
            help="folder of the results; the same command goes on after a kill",
        )
        study.add_argument(
            "--prompts",
            default=_MATERIAL,
            metavar="WHAT,…",
            help="project, pydoc:N, tasks:N, prompt names, task kinds, text files (default: %(default)s)",
        )
        study.add_argument(
            "--prompt-tokens", type=int, default=1200, metavar="N", help="longest prompt (default: %(default)s)"
        )
        study.add_argument(
            "--new-tokens", type=int, default=128, metavar="N", help="tokens decoded a prompt (default: %(default)s)"
        )
        study.add_argument(
            "--references",
            metavar="DIR",
            help="keep the dense reference recordings here, for other studies of the same prompts",
        )
        study.add_argument("--json", action="store_true", help="print the summary as one JSON object")
        add_model(study)
        add_settings(study)
        # K and window of a study that fits prompts of about 1,200 tokens; the presets' own are for much longer ones
        study.set_defaults(run=run, set_k="128", set_recent="64")
        _own(study, name)


def _own(study: argparse.ArgumentParser, name: str) -> None:
    """Options of one study alone."""
    if name == "stability":
        study.add_argument(
            "--top", type=int, default=32, metavar="N", help="positions in a step's support (default: %(default)s)"
        )
        study.add_argument(
            "--share", type=float, metavar="P", help="instead: the fewest positions with this share of the attention"
        )
        study.add_argument(
            "--lags", type=int, default=16, metavar="L", help="longest lag in steps (default: %(default)s)"
        )
    if name == "tune":
        study.add_argument(
            "--target",
            default="kept>=0.95",
            help="'kept>=P' (fewest keys) or 'read<=P' (most attention; default: %(default)s)",
        )


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    if arguments.preset == "dense" or settings.is_dense:
        raise SfiError(
            "a study compares slow-fast settings with dense decoding; the dense preset leaves nothing to compare"
        )
    for name in ("prompt_tokens", "new_tokens"):
        if getattr(arguments, name) < 2:
            raise SfiError(f"--{name.replace('_', '-')} is a whole number from 2; got {getattr(arguments, name)}")
    _check_out(Path(arguments.out))
    from sfi_lab.lab import load  # heavy: torch and transformers
    from sfi_lab.studies import run_study

    lab = load(arguments.model, arguments.device, arguments.dtype)
    summary = run_study(
        arguments.what, lab, settings, arguments.out, prompts=arguments.prompts, prompt_tokens=arguments.prompt_tokens,
        new_tokens=arguments.new_tokens, references=arguments.references, progress=lambda line: print(line, file=sys.stderr, flush=True), **_options(arguments),
    )  # fmt: skip
    print(json.dumps(summary, ensure_ascii=False) if arguments.json else f"{summary['out']}/report.md")
    return 0


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise SfiError(f"{out} is a file; -o takes a folder")


def _options(arguments: argparse.Namespace) -> dict:
    if arguments.what == "stability":
        return {"n": arguments.top, "share": arguments.share, "lags": arguments.lags}
    return {"target": arguments.target} if arguments.what == "tune" else {}
