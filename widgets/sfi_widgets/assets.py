"""Front-end files: plain ES modules, joined to one text per panel, since a widget's module can't import a neighbour."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r"^import \{[^}]*\} from ['\"]\./([\w.-]+)['\"];?\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class)\b)", re.MULTILINE)


@cache
def module(name: str) -> str:
    """`static/name` with every `import {…} from './x.mjs'` replaced by that file, each file once, exports of parts dropped."""
    parts: dict[str, str] = {}

    def gather(file: str) -> None:
        if file in parts:
            return
        text = (STATIC / file).read_text(encoding="utf-8")
        for needed in _IMPORT.findall(text):
            gather(needed)
        parts[file] = _EXPORT.sub("", _IMPORT.sub("", text))

    gather(name)
    return "\n".join(f"// {file}\n{text}" for file, text in parts.items())


@cache
def style() -> str:
    """The one style sheet of all panels."""
    return (STATIC / "sfi.css").read_text(encoding="utf-8")
