"""Takes the documentation's pictures from a real JupyterLab that runs the notebook.

python scripts/screenshot.py [--notebook notebooks/01_workbench.ipynb] [-o docs/images] [--theme light|dark|both]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from ui_browser import Watch, browser, jupyter_server

ROOT = Path(__file__).resolve().parents[1]


def shoot(notebook: Path, out: Path, dark: bool, width: int = 1500, height: int = 1180) -> Path:
    """The workbench as JupyterLab shows it after running the cells up to and including the one that makes it."""
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
            page.locator(".sfi-controls").first.scroll_into_view_if_needed()
            page.wait_for_timeout(1500)
            page.evaluate(
                "document.querySelector('.sfi-controls').closest('.jp-Cell').scrollIntoView({block: 'start'})"
            )
            page.wait_for_timeout(800)
            page.screenshot(path=str(out))
            assert watch.outside == [] and watch.errors == [], (watch.outside, watch.errors)
    return out


def _beginning(notebook: Path, folder: Path) -> Path:
    """The notebook up to the first cell that shows a workbench, with the cursor in the middle of a sentence."""
    import nbformat

    content = nbformat.read(notebook, as_version=4)
    last = next(i for i, cell in enumerate(content.cells) if cell.cell_type == "code" and "Workbench(" in cell.source)
    content.cells = content.cells[: last + 1]
    content.cells[last].source = content.cells[last].source.replace(
        "\nbench", "\nbench.state.cursor = 60\nbench.set(lam=0.3)\nbench"
    )
    path = folder / "beginning.ipynb"
    nbformat.write(content, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notebook", type=Path, default=ROOT / "notebooks" / "01_workbench.ipynb")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--theme", choices=["light", "dark", "both"], default="both")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.theme != "dark":
        print(shoot(arguments.notebook, arguments.out / "workbench.png", dark=False))
    if arguments.theme != "light":
        print(shoot(arguments.notebook, arguments.out / "workbench_dark.png", dark=True))


if __name__ == "__main__":
    main()
