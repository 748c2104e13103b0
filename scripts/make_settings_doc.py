"""Writes docs/settings.md from `sfi_lab.settings`; `--check` only says whether it is current (exit code 1 if not)."""

import sys
from pathlib import Path

from sfi_lab.settings import FIELDS, Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
INTRO = """# Settings

Made from the code by `python scripts/make_settings_doc.py`. `Settings.paper()` are the paper's values (released ones where it
prints none), `Settings.released()` those of the authors' code; `Settings.dense()` is ordinary decoding. On the command line
each field is an option: `t_max` is `--t-max` (but `temperature` is `--tau`: `--temperature` draws tokens). `--settings FILE`,
in Python `Settings.from_toml(path)`, reads fields from a TOML file of lines like `t_max = 64`.

| field | symbol | meaning | allowed | paper | released |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    paper, released = Settings.paper(), Settings.released()
    rows = []
    for name, field in FIELDS.items():
        cells = [
            f"`{name}`",
            field.symbol,
            field.meaning,
            field.allowed,
            _shown(getattr(paper, name)),
            _shown(getattr(released, name)),
        ]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return INTRO + "\n".join(rows) + "\n"


def _shown(value: object) -> str:
    return f"`{value!r}`"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
