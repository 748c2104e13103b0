"""nbval compares only what is stored: a stripped or half-run notebook would pass without a word."""

from pathlib import Path

import nbformat
import pytest

FOUND = sorted((Path(__file__).parents[2] / "notebooks").glob("**/*.ipynb"))
NOTEBOOKS = [path for path in FOUND if ".ipynb_checkpoints" not in path.parts]  # JupyterLab's copies, after `make lab`


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS][:1] == ["01_workbench.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_testable(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    unrun = [cell.source.splitlines()[0] for cell in code if not cell.execution_count]
    assert not unrun, (
        f"cells without an execution count (nbval would not compare them): {unrun}; run scripts/run_notebooks.py"
    )
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "cells were run out of order"
    assert "widgets" not in notebook.metadata, "widget state is stored (megabytes); run scripts/run_notebooks.py"
    assert notebook.metadata.kernelspec.name == "python3"
    assert path.stat().st_size < 1_000_000
    assert not [cell.source for cell in code if cell.source.rstrip().endswith(";")], (
        "a ';' does not silence a cell under nbval"
    )
    streams = [o.text for cell in code for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
    assert not streams, f"warnings are stored: {streams}"
    errors = [o.ename for cell in code for o in cell.outputs if o.output_type == "error"]
    assert not errors, f"cells ended with {errors}"
    asserted = sum("assert " in cell.source for cell in code)
    assert asserted >= len(code) // 3, f"only {asserted} of {len(code)} cells assert something"
