"""In a real JupyterLab: a cell run again and a reloaded page find everything; the picture is saved and never shown."""

import json

import nbformat
import pytest
from ui_browser import Watch, jupyter_server

pytestmark = pytest.mark.browser

RUN_CELL = """async (index) => {
  document.querySelector('.sfi-workbench').dataset.old = 'yes';
  const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
  notebook.activeCellIndex = index; notebook.deselectAll();
  await app.commands.execute('notebook:run-cell'); }"""
SAVE = "window.jupyterapp.commands.execute('docmanager:save')"
SHOWN = """() => ({
  code: document.querySelector('.sfi-code').value,
  cursor: document.querySelector('.sfi-map .sfi-statement').textContent.match(/step \\d+/)[0],
  range: document.querySelector('.sfi-run .sfi-statement').textContent.match(/steps \\d+-\\d+/)[0],
  heads: document.querySelector('.sfi-map .sfi-statement').textContent.split(' · ')[0],
  line: document.querySelector('.sfi-run select').value,
  tab: document.querySelector('.sfi-workbench .lm-TabBar-tab.lm-mod-current').textContent,
})"""


@pytest.fixture
def lab(chromium, trace, tmp_path):
    """A notebook with one workbench, run. -> (page, its file)."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    sources = ["from sfi_widgets import Workbench", f"bench = Workbench({str(trace.path)!r})\nbench"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path = tmp_path / "again.ipynb"
    nbformat.write(notebook, path)
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    page, watch = context.new_page(), Watch()
    with jupyter_server(tmp_path) as server:
        watch.over(page, server.url)
        server.open(page, path.name)
        page.set_default_timeout(20_000)
        painted(page)
        yield page, path
        assert watch.outside == [], f"requests that leave 127.0.0.1: {watch.outside}"
        assert watch.errors == [], f"errors in the console: {watch.errors}"
    context.close()


def painted(page, which=".sfi-workbench"):
    page.wait_for_selector(f"{which} .sfi-map canvas[data-frame]", timeout=60_000)
    page.wait_for_function("document.querySelector('.sfi-code')?.value")


def move_everything(page):
    page.fill(".sfi-controls [data-name=k] .sfi-number", "7")
    page.keyboard.press("Tab")
    page.wait_for_function("document.querySelector('.sfi-code').value.includes('k=7')")
    box = page.locator(".sfi-run canvas").bounding_box()
    x = lambda step: box["x"] + 62 + (box["width"] - 76) * (step + 0.5) / 60  # noqa: E731
    page.mouse.move(x(10), box["y"] + 60)
    page.mouse.down()
    page.mouse.move(x(40), box["y"] + 60, steps=4)
    page.mouse.up()
    page.select_option(".sfi-run select", "overlap")
    page.wait_for_function(
        "/mean overlap with the step before, all layers 0\\.\\d+ \\(exact\\)/.test(document.querySelector('.sfi-run .sfi-statement').textContent)"
    )
    page.select_option("[data-field=layer]", "1")
    page.select_option("[data-field=kv_head]", "2")
    page.click(".lm-TabBar-tabLabel >> text=Stability")
    page.focus(".sfi-map canvas")
    page.keyboard.press("PageDown")
    page.wait_for_function("document.querySelector('.sfi-map .sfi-statement').textContent.includes('step 11:')")
    page.wait_for_timeout(400)  # until the kernel has it all


def test_nothing_is_lost_and_the_widget_is_chosen(lab):
    page, path = lab
    fresh = page.evaluate(SHOWN)
    move_everything(page)
    moved = page.evaluate(SHOWN)
    assert moved["range"] == "steps 10-40" and moved["heads"] == "layer 1, KV head 2" and moved["tab"] == "Stability"
    assert all(moved[name] != fresh[name] for name in moved), (fresh, moved)

    page.evaluate(RUN_CELL, 1)
    painted(page, ".sfi-workbench:not([data-old])")
    assert page.locator(".sfi-workbench").count() == 1
    page.wait_for_function(
        f"(want) => JSON.stringify(({SHOWN})()) === want", arg=json.dumps(moved, separators=(",", ":"))
    )

    assert page.locator(".jp-OutputArea-output img").count() == 0, "where the widget renders there is no picture"
    page.evaluate(SAVE)
    page.wait_for_timeout(800)
    (output,) = nbformat.read(path, as_version=4).cells[1].outputs
    assert {"image/png", "application/vnd.jupyter.widget-view+json", "text/plain"} <= set(output.data)

    page.goto(page.url.replace("&reset", "").replace("?reset", ""))
    painted(page)
    page.wait_for_function(
        f"(want) => JSON.stringify(({SHOWN})()) === want", arg=json.dumps(moved, separators=(",", ":"))
    )
    assert page.locator(".jp-OutputArea-output img").count() == 0
    for name in ("heads", "controls", "run", "map", "selection", "stability", "decode"):
        assert page.locator(f".sfi-{name} .sfi-panel").count() == 1, f"{name} is not back"
