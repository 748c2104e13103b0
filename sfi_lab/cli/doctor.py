"""`sfi-lab doctor`: what is installed, which device there is, and which path will run and why."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil

_PACKAGES = (
    "torch",
    "transformers",
    "triton",
    "polars",
    "safetensors",
    "gguf",
    "jupyterlab",
    "ipywidgets",
    "anywidget",
    "plotly",
    "matplotlib",
    "nbval",
)


def add(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="what is installed and what will run",
        description="Says what is installed, which device there is and which kernels will run.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    facts = findings()
    if arguments.json:
        print(json.dumps(facts))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
    return 0 if facts["torch"] != "missing" and facts["transformers"] != "missing" else 1


def findings() -> dict[str, str]:
    """Every finding by name, in words."""
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    found |= _device()
    found["default model"] = _default_model()
    found["browser (tests)"] = shutil.which("chromium") or "none found; tests of the panels need Debian's chromium"
    return found


def _device() -> dict[str, str]:
    import torch

    if not torch.cuda.is_available():
        return {
            "device": "cpu",
            "decode path": "reference (plain torch): there is no CUDA device",
            "kernels": "Triton's interpreter in tests only"
            if importlib.util.find_spec("triton")
            else "reference only: triton is missing",
        }
    name = torch.cuda.get_device_name()
    if importlib.util.find_spec("triton") is None:
        return {
            "device": name,
            "decode path": "reference (plain torch): triton is missing",
            "kernels": "reference only",
        }
    return {"device": name, "decode path": "reference (plain torch)", "kernels": "Triton, compiled"}


def _default_model() -> str:
    from sfi_lab.loading.default_model import converted_folder

    folder = converted_folder()
    return f"ready in {folder}" if folder.is_dir() else "not fetched yet: the first `sfi.load()` takes about a minute"
