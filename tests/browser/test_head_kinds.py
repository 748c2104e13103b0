"""Layers that are shown differently: with a window of their own, or recorded without queries and keys. Pixels read back."""

import numpy as np
import pytest

from canvas_pixels import pixels
from sfi_lab import Trace
from synthetic_trace import write_trace

pytestmark = pytest.mark.browser

KINDS = ["sliding", "full", "sliding", "full", "full", "chunked"]
LEFT, CELL, TOP = 62, 18, 6


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Layers 1, 3 and 4 recorded, 1 and 4 with queries and keys; 0, 2 and 5 have windows of their own."""
    root = tmp_path_factory.mktemp("kinds") / "mixed"
    return Trace.open(write_trace(root, layers=(1, 3, 4), qk_layers=(1, 4), layer_kinds=KINDS, steps=40))


def cells(image):
    """The picture's part of each layer's first KV head, without its one-pixel gaps."""
    step = (image.shape[1] - 76) / len(KINDS)
    return [
        image[TOP + 2 : TOP + CELL - 2, int(LEFT + n * step) + 2 : int(LEFT + (n + 1) * step) - 2]
        for n in range(len(KINDS))
    ]


def coloured(cell):
    """Where a cell is not grey."""
    rgb = cell[..., :3].astype(int)
    return (rgb.max(-1) - rgb.min(-1)) > 40


def place(page, layer, head=0):
    box = page.locator(".sfi-heads canvas").bounding_box()
    return {"x": LEFT + (layer + 0.5) * (box["width"] - 76) / len(KINDS), "y": TOP + (head + 0.5) * CELL}


@pytest.mark.parametrize("dark", [False, True])
def test_layers_with_a_window_of_their_own_are_grey_and_striped(panels_page, dark):
    page, _ = panels_page("heads", dark=dark, prepare=lambda bench: setattr(bench.heads, "metric", "churn"))
    found = cells(pixels(page, "heads"))
    for layer, (kind, cell) in enumerate(zip(KINDS, found, strict=True)):
        assert (coloured(cell).mean() > 0.9) == (kind == "full"), f"layer {layer} ({kind}): {coloured(cell).mean():.2f}"
        if kind != "full":
            shades = np.unique(cell[..., 1])
            assert shades.max() - shades.min() > 30, f"layer {layer} ({kind}) has no stripes, so it looks unrecorded"
    assert page.is_visible("text=layers with a window of their own")
    page.hover(".sfi-heads canvas", position=place(page, 2))
    assert "sliding window: never made sparse" in page.inner_text(".sfi-heads .sfi-tip")
    page.hover(".sfi-heads canvas", position=place(page, 5))
    assert "chunked window: never made sparse" in page.inner_text(".sfi-heads .sfi-tip")
    before = page.evaluate("[hub.get('layer'), hub.get('kv_head')]")
    page.click(".sfi-heads canvas", position=place(page, 2))
    assert page.evaluate("[hub.get('layer'), hub.get('kv_head')]") == before, "there is nothing to look at"
    page.focus(".sfi-heads canvas")
    seen = set()
    for _ in KINDS:
        page.keyboard.press("ArrowRight")
        seen.add(page.evaluate("hub.get('layer')"))
    assert seen == {4}, "arrow keys step over them"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("hub.get('layer')") == 3


def test_layers_that_cannot_be_reselected_are_small_and_say_so(panels_page):
    def prepare(bench):
        bench.set(k=6)
        assert bench.heads.wait(60)
        bench.heads.metric = "now_keys"

    page, bench = panels_page("heads", prepare=prepare)
    found = cells(pixels(page, "heads"))
    full, small = coloured(found[1]).mean(), coloured(found[3]).mean()
    assert coloured(found[4]).mean() > 0.9 and full > 0.9 and 0.3 < small < 0.8, (full, small)
    assert page.is_visible(".sfi-heads .sfi-legend >> text=recorded, not re-selected")
    page.hover(".sfi-heads canvas", position=place(page, 3))
    assert "(recorded, not re-selected)" in page.inner_text(".sfi-heads .sfi-tip")
    page.hover(".sfi-heads canvas", position=place(page, 1))
    assert "(exact)" in page.inner_text(".sfi-heads .sfi-tip")
    page.click(".sfi-heads canvas", position=place(page, 3))
    assert "layer 3, KV head 0: " in page.inner_text(".sfi-heads .sfi-statement")
    assert page.inner_text(".sfi-heads .sfi-statement").endswith("(recorded, not re-selected)")
    assert "; the other layer recorded, not re-selected: " in bench.heads.summary
    page.evaluate("heads.set('metric', 'churn')")
    page.wait_for_selector(".sfi-heads .sfi-legend >> text=recorded, not re-selected", state="hidden")
    assert coloured(cells(pixels(page, "heads"))[3]).mean() > 0.9, "what was recorded of all layers is exact"
