"""Runs notebooks in place: keeps their outputs, drops widget state and whatever changes from run to run.

python scripts/run_notebooks.py                     # all of notebooks/
python scripts/run_notebooks.py notebooks/01_workbench.ipynb
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
VIEW = "application/vnd.jupyter.widget-view+json"  # without the state, which isn't stored, no viewer can follow its id anyway


def run(path: Path, timeout: int = 600) -> float:
    """Executes one notebook in its own folder and stores it. Returns the seconds it took."""
    start = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources, record_timing=False).execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook.metadata.get("language_info", {}).pop("version", None)  # another patch release of Python is no change
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)
        cell.id = f"cell-{number:02d}"
    number_widgets(notebook)
    nbformat.write(notebook, path)
    return time.perf_counter() - start


def number_widgets(notebook: nbformat.NotebookNode) -> None:
    """Gives the widgets in the outputs ids by their order instead of random ones, the same wherever one is named again."""
    ids: dict[str, str] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(VIEW)
            if view is not None:
                view["model_id"] = ids.setdefault(view["model_id"], f"{len(ids) + 1:032x}")


def main(names: list[str]) -> None:
    for path in [Path(name) for name in names] or sorted((ROOT / "notebooks").glob("*.ipynb")):
        seconds = run(path.resolve())
        print(f"{path}: {seconds:.1f} s, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
