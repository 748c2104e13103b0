"""The workbench notebook as a page of Voilà: every panel comes up and answers, and nothing leaves the machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from ui_browser import Watch

from sfi_widgets import voila

ROOT = Path(__file__).parents[2]
PANELS = ("heads", "controls", "run", "map", "selection", "text", "compare", "anatomy", "stability", "timing", "decode")

needs_voila = pytest.mark.skipif(
    find_spec("voila") is None, reason="Voilà is not installed: pip install '.[voila]' in the project's folder"
)


@pytest.fixture
def address(tmp_path):
    """The notebook up to its workbench, served as `python -m sfi_widgets.voila` does."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "notebooks").mkdir()
    notebook = nbformat.read(ROOT / "notebooks" / "01_workbench.ipynb", as_version=4)
    last = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and "Workbench(" in cell.source)
    notebook.cells = notebook.cells[: last + 1]
    path = tmp_path / "notebooks" / "first.ipynb"
    nbformat.write(notebook, path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", tmp_path / "voila.log"
    command = [
        sys.executable,
        "-m",
        "sfi_widgets.voila",
        str(path),
        "--no-browser",
        f"--port={port}",
        "--Voila.ip=127.0.0.1",
    ]
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "run")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{url}/voila/static/none", timeout=1).close()
            except urllib.error.HTTPError:
                break  # it answers
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.25)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@needs_voila
@pytest.mark.browser
def test_notebook_in_voila(chromium, address):
    page, watch = chromium.new_page(viewport={"width": 1400, "height": 1000}), Watch()
    watch.over(page, address)
    page.goto(address, timeout=90_000)
    page.wait_for_selector(".sfi-map canvas[data-frame]", timeout=60_000)
    assert page.locator("text=Trace.open").count() == 0, "a page without code"
    assert page.locator("img").count() == 0, "widgets, not their pictures"
    for name in PANELS:
        page.wait_for_selector(f".sfi-{name} .sfi-panel", state="attached")
    page.fill(".sfi-controls [data-name=k] .sfi-number", "20")
    page.keyboard.press("Tab")
    page.wait_for_function("document.querySelector('.sfi-code').value.includes('k=20')")
    page.wait_for_function(
        "document.querySelector('.sfi-selection .sfi-statement').textContent.includes('20 selected')"
    )
    page.close()
    assert watch.outside == [], f"requests that leave 127.0.0.1: {watch.outside}"
    assert watch.errors == [], f"errors in the console: {watch.errors}"


@pytest.mark.parametrize("arguments", [[], ["missing.ipynb"], ["--port=1"]])
def test_a_notebook_must_be_named(arguments):
    with pytest.raises(SystemExit, match=r"name one notebook: python -m sfi_widgets\.voila "):
        voila.main(arguments)


def test_without_voila_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "voila", None)
    monkeypatch.setitem(sys.modules, "voila.app", None)
    path = tmp_path / "n.ipynb"
    shutil.copy(ROOT / "notebooks" / "01_workbench.ipynb", path)
    with pytest.raises(SystemExit, match=r"Voilà is not installed: pip install '\.\[voila\]' in the project's folder"):
        voila.main([str(path)])


def test_the_wheel_takes_the_template_along():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["sfi_widgets"]
    package = Path(voila.__file__).parent
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    files = {p for p in package.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert files <= shipped, f"not in the wheel: {sorted(map(str, files - shipped))}"
    assert (voila.SHARE / "voila" / "templates" / voila.TEMPLATE / "index.html.j2") in files
