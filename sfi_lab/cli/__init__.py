"""The command line, a file a command: each has `add` (its arguments) and `run` (what it does, returning the exit code).

| command | what |
|---|---|
| `sfi-lab generate` | decode a prompt file, optionally recording a trace |
| `sfi-lab trace info DIR` | a recorded run in a few facts |
| `sfi-lab lab` | JupyterLab on the workbench notebook |
| `sfi-lab doctor` | what is installed, which device, which kernels will run |
| `sfi-lab bench overhead` | what the loop and the recording cost |
| `sfi-lab bench decode`, `kernel`, `selector` | the engine and its kernels against their memory bounds |
| `sfi-lab study stability`, `controls`, `fidelity`, `tune` | what holds on your model and text, over many prompts |
| `sfi-lab evaluate` | SFI and other methods on tasks at equal budgets |
| `sfi-lab figures` | paper-style figures and tables from traces and results |
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from sfi_lab import __version__
from sfi_lab.cli import bench, doctor, evaluate, figures, generate, lab, study, trace
from sfi_lab.errors import SfiError

COMMANDS = (generate, trace, lab, doctor, bench, study, evaluate, figures)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line; argparse would print every option before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists what is allowed\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line; also what the docs are checked against."""
    top = Parser(prog="sfi-lab", description="A workbench for Slow-Fast Inference.")
    top.add_argument("--version", action="version", version=f"sfi-lab {__version__}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Bad input is one line on standard error and exit code 2; Ctrl-C is exit code 130."""
    chosen = parser().parse_args(arguments)
    try:
        return chosen.run(chosen)
    except SfiError as error:
        print(f"sfi-lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sfi-lab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; nothing is left to say it to
        return 0
