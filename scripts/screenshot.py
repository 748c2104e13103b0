"""Takes the documentation's pictures from a real JupyterLab that runs the workbench notebook's first cells.

python scripts/screenshot.py [--notebook notebooks/01_workbench.ipynb] [-o docs/images] [--theme light|dark|both|methods]

Light: workbench.png and text.png, compare.png, timing.png; dark: workbench_dark.png; methods: methods.png, the exported page of
data/results/methods with a point chosen. Written with a palette, which keeps them
below 200 kB.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ui_browser import Watch, browser, jupyter_server

from sfi_lab.small_png import small_png

ROOT = Path(__file__).resolve().parents[1]
PANELS = {"text": "Text", "compare": "Compare", "timing": "Timing"}  # a picture each
STATE = """
bench = panels.Workbench(trace, timeline="../data/results/h200/timeline.parquet")
bench.state.cursor = 60
bench.set(lam=0.5, k=64)
bench"""  # in the middle of a sentence, with settings that differ from the recording's


def shoot(
    notebook: Path, out: Path, dark: bool, panels: list[str], width: int = 1500, height: int = 1180
) -> list[Path]:
    """The workbench as JupyterLab shows it after the cells up to the one that makes it, and panels of its tabs."""
    after = "_dark" if dark else ""
    made = []
    with tempfile.TemporaryDirectory(prefix="sfi-shot-") as name:
        folder = Path(name) / "notebooks"
        folder.mkdir()
        (Path(name) / "data").symlink_to(ROOT / "data")
        shutil.copy(_beginning(notebook, Path(name)), folder / notebook.name)
        with jupyter_server(folder, "JupyterLab Dark" if dark else "JupyterLab Light") as server, browser() as chromium:
            page = chromium.new_page(viewport={"width": width, "height": height})
            watch = Watch()
            watch.over(page, server.url)
            server.open(page, notebook.name)
            page.wait_for_selector(".sfi-map canvas[data-frame]")
            page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
            page.wait_for_function("document.querySelector('.sfi-heads .sfi-summary').textContent.includes('layers')")
            cell = "document.querySelector('.sfi-controls').closest('.jp-Cell')"
            page.wait_for_timeout(1500)
            page.evaluate(f"{cell}.scrollIntoView({{block: 'start'}})")
            page.wait_for_timeout(800)
            made.append(_save(page.screenshot(), out / f"workbench{after}.png"))
            for panel in panels:
                made.append(_save(_panel(page, panel), out / f"{panel}{after}.png"))
            assert watch.outside == [] and watch.errors == [], (watch.outside, watch.errors)
    return made


def shoot_methods(out: Path) -> Path:
    """The comparison of methods, with the prompts behind one point."""
    from sfi_widgets import MethodsPanel

    panel = MethodsPanel(ROOT / "data" / "results" / "methods")
    panel.selected = ["snapkv", 256]
    with tempfile.TemporaryDirectory(prefix="sfi-shot-") as name, browser() as chromium:
        panel.to_html(Path(name) / "page.html")
        page = chromium.new_page(viewport={"width": 1100, "height": 900})
        page.goto((Path(name) / "page.html").as_uri())
        page.wait_for_selector(".sfi-panel canvas[data-frame]")
        page.wait_for_timeout(800)
        return _save(page.locator(".sfi-panel").first.screenshot(), out / "methods.png")


def _panel(page: Any, panel: str) -> bytes:
    """One panel of the tabs, come to rest."""
    page.click(f".sfi-workbench .lm-TabBar-tabLabel >> text={PANELS[panel]}")
    place = page.locator(f".sfi-{panel} .sfi-panel").first
    place.scroll_into_view_if_needed()
    if panel == "text":
        page.focus(".sfi-map canvas[data-frame]")
        page.keyboard.press("ArrowRight")
        place.scroll_into_view_if_needed()
    page.wait_for_timeout(1200)
    return place.screenshot()


def _save(data: bytes, path: Path) -> Path:
    from PIL import Image

    path.write_bytes(small_png(Image.open(io.BytesIO(data)).convert("RGB"), 256))
    return path


def _beginning(notebook: Path, folder: Path) -> Path:
    """The notebook up to the first cell that shows a workbench, with the cursor in the middle of a sentence."""
    import nbformat

    content = nbformat.read(notebook, as_version=4)
    last = next(i for i, cell in enumerate(content.cells) if cell.cell_type == "code" and "Workbench(" in cell.source)
    content.cells = content.cells[: last + 1]
    content.cells[last].source = STATE.strip()
    path = folder / "beginning.ipynb"
    nbformat.write(content, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notebook", type=Path, default=ROOT / "notebooks" / "01_workbench.ipynb")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--theme", choices=["light", "dark", "both", "methods"], default="both")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = []
    if arguments.theme in ("light", "both"):
        made += shoot(arguments.notebook, arguments.out, dark=False, panels=list(PANELS))
    if arguments.theme in ("dark", "both"):
        made += shoot(arguments.notebook, arguments.out, dark=True, panels=[])
    if arguments.theme in ("methods", "both"):
        made.append(shoot_methods(arguments.out))
    for path in made:
        print(f"{path} {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
