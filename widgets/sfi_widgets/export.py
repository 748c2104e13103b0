"""A workbench, or single panels, as one HTML file: hover, scrubbing and zoom without a kernel or a network."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .assets import module, style
from .panel import Panel

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; --jp-layout-color0: #ffffff; --jp-layout-color1: #f6f7f9; }}
@media (prefers-color-scheme: dark) {{ :root {{ --jp-layout-color0: #16191d; --jp-layout-color1: #1d2126; }} }}
body {{ background: var(--jp-layout-color0); margin: 14px auto; max-width: 1240px; padding: 0 12px; display: grid; gap: 10px; }}
body > p {{ font: 13px/1.5 system-ui, sans-serif; margin: 0; color: #7a848e; }}
{style}
</style></head><body>
<p>{lead}</p>
{places}
<script type="module">
{host}
window.sfi = await host({page});
document.body.dataset.ready = '1';
</script></body></html>
"""


def to_html(panels: Sequence[Panel], path: str | Path, title: str, lead: str = "") -> Path:
    """Writes the panels, in this order, with their data into one file that needs nothing else. Returns its path."""
    page, places = page_of(panels)
    text = _PAGE.format(
        title=html.escape(title),
        lead=html.escape(lead or title),
        places=places,
        style=style(),
        host=module("host.mjs"),
        page=page,
    )
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page_of(panels: Sequence[Panel]) -> tuple[str, str]:
    """The host's page object as JSON that is safe inside a script element, and the panels' elements."""
    hubs = {panel.hub.model_id: panel.hub for panel in panels if panel.hub is not None}
    modules, shown, models = {}, {}, {}
    for panel in panels:
        name = type(panel).__name__
        modules[name] = base64.b64encode(str(panel._esm).encode()).decode()
        shown[panel.model_id] = name
    for widget in [*hubs.values(), *panels]:
        state = {k: v for k, v in widget.get_state().items() if not k.startswith("_") and k != "layout"}
        models[widget.model_id] = _plain(state)
    page = json.dumps({"models": models, "panels": shown, "modules": modules}, ensure_ascii=False).replace("</", "<\\/")
    return page, "\n".join(f'<div id="{model_id}"></div>' for model_id in shown)


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
