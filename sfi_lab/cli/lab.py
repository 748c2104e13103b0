"""`sfi-lab lab`: JupyterLab on the workbench notebook."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import quote

from sfi_lab.errors import SfiError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "01_workbench.ipynb"


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "lab",
        help="open JupyterLab on the workbench notebook",
        description="Opens JupyterLab on the workbench notebook.",
    )
    parser.add_argument("notebook", nargs="?", help="another notebook (default: notebooks/01_workbench.ipynb)")
    parser.add_argument("--port", type=int, help="port of the server (default: Jupyter's own choice)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    notebook = Path(arguments.notebook) if arguments.notebook else NOTEBOOK
    if not notebook.is_file():
        raise SfiError(
            f"notebook {notebook} does not exist; run this from a clone of the repository or name a notebook"
        )
    # the clone is the server's root, so that data, docs and the other notebooks are a click away
    root = ROOT if notebook.resolve().is_relative_to(ROOT) else notebook.resolve().parent
    page = quote(notebook.resolve().relative_to(root).as_posix())
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{page}",
        # installed for `make voila`, which runs it by itself; inside JupyterLab's server it only prints a warning
        "--ServerApp.jpserver_extensions={'voila.server_extension': False}",
    ]
    if arguments.port:
        command.append(f"--port={arguments.port}")
    if arguments.no_browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers run as root; Jupyter refuses that unless told
    os.execv(command[0], command)  # the server takes this process over, so Ctrl-C reaches it
    return 0
