"""Makes figures and tables into a folder, says which lack their data, and writes down what they were made from."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy
import polars
import torch

import sfi_lab
from sfi_lab.errors import SfiError
from sfi_lab.figures import style
from sfi_lab.figures.material import Material, Missing, content_hash
from sfi_lab.figures.registry import NAMES, is_table, recipe
from sfi_lab.trace import Trace


@dataclass(frozen=True, slots=True)
class Made:
    """One figure or table on disk. files: name -> SHA-256; sources: what it was made from."""

    name: str
    title: str
    caption: str
    files: dict[str, str]
    sources: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Lacking:
    """One that could not be made: why, and the command that makes its data ("" where no command helps)."""

    name: str
    why: str
    command: str


@dataclass(slots=True)
class Report:
    """What `make` did."""

    made: list[Made] = field(default_factory=list)
    missing: list[Lacking] = field(default_factory=list)


def make(
    material: Material,
    out: str | Path,
    only: Sequence[str] = (),
    formats: Sequence[str] = style.FORMATS,
    command: str = "",
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Makes every figure and table (or `only` some) into the folder `out`, with captions.md and manifest.json.

    A figure without its data is listed in `missing` and the rest is made. The same data give the same bytes. Raises
    SfiError for unknown names or formats.
    """
    names = checked_names(only)
    wrong = [form for form in formats if form not in style.FORMATS]
    if wrong or not formats:
        raise SfiError(f"unknown format {(wrong or [''])[0]!r}; allowed: {', '.join(style.FORMATS)}")
    folder, report, hashes = Path(out), Report(), {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if progress:
            progress(name)
        view = material.view()
        try:
            caption, contents = _contents(name, view, formats)
        except Missing as lacks:
            report.missing.append(Lacking(name, lacks.what, lacks.command))
            continue
        except SfiError as error:
            report.missing.append(Lacking(name, str(error), ""))
            continue
        for file, content in contents.items():
            (folder / file).write_bytes(content)
        files = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
        sources = [_source(path, material, hashes) for path in view.used]
        report.made.append(Made(name, recipe(name).TITLE, caption, files, sources))
    (folder / "captions.md").write_text(_captions(report), encoding="utf-8")
    manifest = json.dumps(_manifest(report, command), indent=1, ensure_ascii=False)
    (folder / "manifest.json").write_text(manifest + "\n", encoding="utf-8")
    return report


def checked_names(only: Sequence[str]) -> list[str]:
    """The names asked for, in the registry's order; all of them for none."""
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        raise SfiError(f"unknown figure {unknown[0]!r}; there are: {', '.join(NAMES)}")
    return [name for name in NAMES if not only or name in only]


def _contents(name: str, material: Material, formats: Sequence[str]) -> tuple[str, dict[str, bytes]]:
    """Caption and files of one figure or table."""
    module = recipe(name)
    if is_table(module):
        table = module.table(material)
        return table.caption, {f"{name}.tex": table.latex().encode(), f"{name}.md": table.markdown().encode()}
    found = module.data(material)
    with style.styled():
        figure = module.draw(found)
    return module.caption(found), {f"{name}.{form}": style.rendered(figure, form) for form in formats}


def _source(path: Path, material: Material, hashes: dict[Path, str]) -> dict[str, Any]:
    if path not in hashes:
        hashes[path] = content_hash(path)
    about: dict[str, Any] = {"path": str(path), "sha256": hashes[path]}
    trace = next((t for t in material.traces if t.path == path), None)
    return about | (_facts(trace) if trace else {})


def _facts(trace: Trace) -> dict[str, Any]:
    return {
        "model": trace.meta["model"]["name"],
        "settings": trace.settings.to_dict(),
        "recorded_with": trace.meta["versions"],
    }


def _captions(report: Report) -> str:
    parts = [f"**{made.name}**: {made.title}. {made.caption}" for made in report.made]
    return "\n\n".join(parts) + "\n"


def _manifest(report: Report, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "versions": versions(),
        "figures": [
            {
                "name": made.name,
                "title": made.title,
                "caption": made.caption,
                "files": made.files,
                "data_sha256": hashlib.sha256("".join(sorted(s["sha256"] for s in made.sources)).encode()).hexdigest(),
                "sources": made.sources,
            }
            for made in report.made
        ],
        "missing": [{"name": lacks.name, "why": lacks.why, "command": lacks.command} for lacks in report.missing],
    }


def versions() -> dict[str, str]:
    """What the numbers and the bytes depend on."""
    return {
        "sfi_lab": sfi_lab.__version__,
        "matplotlib": matplotlib.__version__,
        "numpy": numpy.__version__,
        "polars": polars.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
