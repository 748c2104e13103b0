"""Measures the workbench in headless Chromium: slider to painted frame, dragging, pan and zoom, messages, first paint.

    python scripts/bench_ui.py [--trace DIR] [--rounds 9] [--json]

The trace is 500 decode steps of the default model up to 4,096 positions, recorded once into the user's cache (minutes).
Every figure is a median over rounds, with the best and the worst beside it, against the limits of the house; on a busy machine
the best is nearer to the truth. Times run from the input event to the second animation frame after the change was drawn. The
window is tall enough for all panels that follow a slider: out of sight they wait, and would not be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ui_browser import Watch, browser, frame_sizes, jupyter_server

import sfi_lab as sfi
from sfi_widgets import SupportMap, columns
from sfi_widgets.export import to_html

POSITIONS, STEPS = 4096, 500
# control: (stops to visit, limit of the median in ms); each a slider of the settings panel
MOVES = {"k": (60, 60), "lam_clip": (40, 100), "nms_strength": (12, 100), "exclusivity": (12, 100), "t_max": (12, 150)}
WORST_DRAG = 300

_HELPERS = """() => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const canvases = () => ['map', 'selection'].map((n) => document.querySelector(`.sfi-${n} canvas[data-frame]`));
  const count = () => canvases().map((c) => +c.dataset.frame);
  window.moveTo = async (name, index, local) => {
    const slider = document.querySelector(`[data-field=${name}][type=range]`), code = document.querySelector('.sfi-code');
    const before = count(), old = code.value, start = performance.now();
    slider.value = index;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    while (performance.now() - start < 2000) {
      await frame();
      if (count().every((n, i) => n > before[i]) && (local || code.value !== old)) break;
    }
    await frame();
    const painted = performance.now() - start;
    while (code.value === old && performance.now() - start < 2000) await frame();
    return painted;
  };
  window.drag = async (name, from, by, steps) => {
    const slider = document.querySelector(`[data-field=${name}][type=range]`), paints = [];
    const watch = new MutationObserver(() => paints.push(performance.now()));
    watch.observe(canvases()[0], {attributes: true, attributeFilter: ['data-frame']});
    const start = performance.now();
    for (let i = 0; i < steps; i++) {
      slider.value = from + i * by;
      slider.dispatchEvent(new Event('input', {bubbles: true}));
      await new Promise((done) => setTimeout(done, 33));
    }
    const end = performance.now();
    await new Promise((done) => setTimeout(done, 600));
    watch.disconnect();
    const during = [start, ...paints.filter((t) => t <= end)];
    return {frames: during.length - 1, worst: Math.max(...during.slice(1).map((t, i) => t - during[i])), settled: Math.max(0, (paints.at(-1) ?? end) - end)};
  };
}"""

_PAN = """async (moves) => {
  const canvas = document.querySelector('.sfi-map canvas[data-frame]'), times = [], draws = [];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  canvas.focus();
  for (const [key, shift] of moves) {
    const before = canvas.dataset.frame, start = performance.now();
    canvas.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey: shift, bubbles: true, cancelable: true}));
    for (let i = 0; i < 60 && canvas.dataset.frame === before; i++) await frame();
    times.push(performance.now() - start);
    draws.push(+canvas.dataset.ms);
  }
  return {times, draws};
}"""


def bench_trace() -> Path:
    """The recorded trace of the measurements, made on the first call."""
    import platformdirs

    from sfi_lab.text import pydoc_document

    folder = Path(platformdirs.user_cache_dir("sfi_lab")) / f"bench-ui-{POSITIONS}x{STEPS}"
    if (folder / "meta.json").exists() and json.loads((folder / "meta.json").read_text())["finished"]:
        return folder
    lab = sfi.load()
    ids = lab.tokenizer(pydoc_document(40_000))["input_ids"][: POSITIONS - STEPS]
    settings = sfi.Settings.paper(k=256, recent=128)
    lab.generate(
        ids, settings, STEPS, record="support+qk", trace=folder, qk_layers=[14], record_top=64, ignore_eos=True
    )
    return folder


def sliders(trace: Path, rounds: int) -> dict[str, Any]:
    """First paint, slider latencies and message sizes in JupyterLab."""
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook.cells = [
        # the panels' modules are imported with the name, outside what is timed
        nbformat.v4.new_code_cell(
            f"import sfi_lab, time\nfrom sfi_widgets import Workbench\ntrace = sfi_lab.Trace.open({str(trace)!r})"
        ),
        nbformat.v4.new_code_cell("started = time.time()\nbench = Workbench(trace)\nbench"),
        nbformat.v4.new_code_cell("print('started', started)"),
    ]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sfi-bench-") as name:
        nbformat.write(notebook, Path(name) / "bench.ipynb")
        with jupyter_server(Path(name)) as server, browser() as chromium:
            page, watch = chromium.new_page(viewport={"width": 1400, "height": 1760}), Watch()
            sizes = frame_sizes(page)
            watch.over(page, server.url)
            server.open(page, "bench.ipynb", run=False)
            page.evaluate(
                """async () => { const app = window.jupyterapp; await app.restored; const w = app.shell.currentWidget;
                await w.context.ready; await w.sessionContext.ready; await w.sessionContext.session.kernel.info;
                window.firstPaint = null;
                const look = () => { const all = ['run', 'map', 'selection'].map((n) => document.querySelector(`.sfi-${n} canvas[data-frame]`));
                  if (all.every(Boolean)) window.firstPaint = Date.now() / 1000; else requestAnimationFrame(look); };
                requestAnimationFrame(look);
                await app.commands.execute('notebook:run-all-cells'); }"""
            )
            page.wait_for_function("window.firstPaint !== null", timeout=60_000)
            text = page.locator(".jp-OutputArea-output pre:has-text('started')").last.inner_text(timeout=60_000)
            found["first paint (s)"] = {
                "median": round(page.evaluate("window.firstPaint") - float(text.split()[1]), 2),
                "limit": 3.0,
            }
            page.evaluate(_HELPERS)
            page.evaluate("document.querySelectorAll('.sfi-controls details').forEach((d) => { d.open = true; })")
            for field, (stop, limit) in MOVES.items():
                page.focus(f"[data-field={field}][type=range]")
                page.wait_for_timeout(800)
                page.evaluate("([n, i, l]) => moveTo(n, i, l)", [field, stop, field == "k"])
                times = []
                for i in range(rounds):
                    page.wait_for_timeout(200)
                    index = stop + (1 + i // 2) * (1 if i % 2 else -1)
                    times.append(page.evaluate("([n, i, l]) => moveTo(n, i, l)", [field, index, field == "k"]))
                dragged = page.evaluate("([n, f]) => drag(n, f, 1, 24)", [field, max(1, stop - 10)])
                found[field] = {
                    "median": round(statistics.median(times), 1), "best": round(min(times), 1), "worst": round(max(times), 1), "limit": limit,
                    "worst gap while dragging": round(dragged["worst"], 1), "drag limit": WORST_DRAG,
                    "frames in 0.8 s of dragging": dragged["frames"], "settled after": round(dragged["settled"], 1),
                }  # fmt: skip
                page.click("[data-preset=recorded]")
                page.wait_for_timeout(600)
                print(f"measured {field}: {found[field]}", file=sys.stderr)
            found["largest message (bytes)"] = {"median": max(sizes), "limit": 2_000_000}
            assert watch.outside == [] and watch.errors == [], (watch.outside, watch.errors)
    return found


def large_map(trace: Path, steps: int = 2000, positions: int = 131_072, top: int = 64) -> dict[str, Any]:
    """Pan and zoom of a map of this size, from ids and weights, in an exported page."""
    rng = np.random.default_rng(0)
    panel = SupportMap(sfi.Trace.open(trace))
    hub = panel.session.hub
    newest = np.arange(positions - steps, positions, dtype=np.int32)
    refreshes = np.arange(0, steps, 33, dtype=np.int32)
    ids = np.sort((rng.power(3, (steps, top)) * newest[:, None]).astype(np.int32), axis=1)
    support = columns.Rows(np.arange(0, (steps + 1) * top, top, dtype=np.uint32), ids.reshape(-1))
    ranked = columns.Rows.of([rng.choice(newest[s] - 256, 2048, replace=False) for s in refreshes])
    wire = {**columns.wire_ids(ranked, positions), "steps": refreshes.tobytes(), "heads": 1, "k": 2048}
    flat = np.full(steps, 0.9, np.float32).tobytes()
    hub.tokens = {
        "text": columns.SEPARATOR.join([" a"] * positions),
        "sentence": np.zeros(positions, np.int32).tobytes(),
    }
    hub.run = {
        "count": steps, "position": newest.tobytes(), "slow": np.isin(np.arange(steps), refreshes).astype(np.uint8).tobytes(),
        "reason": ["t_max" if s in set(refreshes.tolist()) else "" for s in range(steps)],
        "sentence": (np.arange(steps) // 25).astype(np.int32).tobytes(), "available": newest.tobytes(), "read": flat,
    }  # fmt: skip
    hub.facts = {**hub.facts, "steps": steps, "positions": positions, "prompt": positions - steps}
    hub.support = {
        **columns.wire_ids(support, positions),
        "weights": columns.wire_weights(rng.random(steps * top) ** 6),
        "rest": flat,
    }
    hub.recorded, hub.k = wire, 2048
    hub.now = {
        **wire,
        "reasons": ["t_max"] * len(refreshes),
        "lam": np.zeros(len(refreshes), np.float32).tobytes(),
        "kind": "exact",
    }
    hub.mass = {
        "sink": 4, "recent_start": (newest - 255).tobytes(), "kept": flat, "kept_before": flat, "keys_read": newest.tobytes(),
        "keys_before": newest.tobytes(), "mean_kept": 0.9, "mean_keys": 1.0, "mean_kept_before": 0.9, "mean_keys_before": 1.0,
    }  # fmt: skip
    hub._trait_values["brush"], hub._trait_values["span"] = (
        (0, steps),
        (0, positions),
    )  # past what the session's own trace allows
    moves = (
        [["+", False]] * 4
        + [["ArrowRight", True], ["ArrowDown", True], ["ArrowLeft", True], ["ArrowUp", True]] * 6
        + [["-", False]] * 4
    )
    with tempfile.TemporaryDirectory(prefix="sfi-bench-") as name, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1100, "height": 700})
        page.goto(to_html([panel], Path(name) / "map.html", "bench").as_uri())
        page.wait_for_selector("body[data-ready]")
        page.wait_for_timeout(500)
        page.evaluate(_PAN, moves)
        got = page.evaluate(_PAN, moves)
    size = sum(len(v) for d in (hub.support, hub.now) for v in d.values() if isinstance(v, bytes))
    return {
        f"pan and zoom {steps} x {positions:,}": {"median": round(statistics.median(got["times"]), 1), "worst": round(max(got["times"]), 1), "limit": 33},
        "  of it drawing": {"median": round(statistics.median(got["draws"]), 1), "worst": round(max(got["draws"]), 1)},
        "  bytes sent for it": {"median": size, "limit": 2_000_000},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    start = time.perf_counter()
    trace = (arguments.trace or bench_trace()).resolve()
    facts = {**sfi.Trace.open(trace).info(), "path": trace.name}
    found = {**large_map(trace), **sliders(trace, arguments.rounds)}
    if arguments.json:
        print(json.dumps({"trace": facts, "load": os.getloadavg(), "measured": found}, indent=1, default=str))
        return
    print(
        f"{facts['model']}, {facts['prompt_tokens']} + {facts['new_tokens']} positions; load average {os.getloadavg()[0]:.1f}; {time.perf_counter() - start:.0f} s"
    )
    for name, row in found.items():
        verdict = "" if "limit" not in row else "ok" if row["median"] <= row["limit"] else "OVER"
        print(f"{name:38}", "  ".join(f"{key} {value:,}" for key, value in row.items()), verdict)


if __name__ == "__main__":
    main()
