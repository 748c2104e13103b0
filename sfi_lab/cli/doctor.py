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

    from sfi_lab.runtime.choice import why_not_here
    from sfi_lab.runtime.weights import FAMILIES

    cuda = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if cuda else "cpu"
    why = why_not_here(torch.device("cuda" if cuda else "cpu"))
    if why is not None:
        has_triton = importlib.util.find_spec("triton") is not None
        kernels = "reference (plain torch)"
        kernels += "; the Triton ones run in tests, in its interpreter" if has_triton else ": triton is missing"
        return {"device": name, "decode path": f"reference loop (plain torch): {why}", "kernels": kernels}
    free, total = torch.cuda.mem_get_info()
    families = ", ".join(family.removesuffix("ForCausalLM") for family in FAMILIES)
    return {
        "device": f"{name}, {free / 1e9:.1f} of {total / 1e9:.1f} GB free",
        "decode path": f"engine with captured steps ({families}: a layer in six launches; others: the model's own modules); "
        "the reference loop where a run is recorded, layers keep windows of their own, or the trigger is drift",
        "kernels": "Triton, compiled",
    }


def _default_model() -> str:
    from sfi_lab.loading.default_model import converted_folder

    folder = converted_folder()
    return f"ready in {folder}" if folder.is_dir() else "not fetched yet: the first `sfi.load()` takes about a minute"
