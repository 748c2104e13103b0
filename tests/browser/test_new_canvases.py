"""Compare, streams and heads in a real browser without Jupyter: pixels read back, buttons pressed."""

import polars as pl
import pytest

from canvas_pixels import BEFORE, RECENT, SELECTED, close_to, hue, pixels
from test_timing_panel import ROWS

pytestmark = pytest.mark.browser

OTHER = "#70777f"
HEADS = ["#56b4e9", "#7a5cc4", "#cc79a7"]


def rgb(hexa):
    return [int(hexa[i : i + 2], 16) for i in (1, 3, 5)]


def compared(**changes):
    def prepare(bench):
        bench.compare.live = True
        bench.set(**changes)
        ids = [*bench.session.trace.token_ids[:4], 7, 8]
        bench.compare.show_tokens(list("abcdef"), list("abcdxy"), bench.session.trace.token_ids[:6], ids, "re-run")

    return prepare


def test_compare_paints_who_selected_what(panels_page):
    page, bench = panels_page("compare", prepare=compared(lam=1.0))
    image = pixels(page, "compare")
    both, only_a, only_b = (hue(image, colour, 12) for colour in (OTHER, BEFORE, SELECTED))
    assert only_a.sum() > 500 and only_b.sum() > 500 and both.sum() > 100
    height, width = image.shape[:2]
    top, bottom, left, right, step = 12, height - 34, 62, width - 14, 33
    x = left + int((step + 0.5) * (right - left) / 60)
    parts = bench.compare.difference(step)
    for part, colour in (("a", only_a), ("b", only_b)):
        rows = [top + int((p + 0.5) * (bottom - top) / bench.state.positions) for p in parts[part]]
        hits = [colour[r - 1 : r + 2, x].any() for r in rows]
        assert sum(hits) / len(hits) > 0.7, f"{sum(hits)} of {len(hits)} positions only in {part} have its hue"
    page.evaluate(f"hub.set('cursor', {step})")
    page.wait_for_timeout(60)
    words = (
        f"step {step}: {len(parts['both'])} selected by both, {len(parts['a'])} only by A, {len(parts['b'])} only by B"
    )
    assert words in page.inner_text(".sfi-compare .sfi-statement")


def test_compare_of_equal_settings_is_grey(panels_page):
    page, _ = panels_page("compare", prepare=lambda bench: setattr(bench.compare, "live", True))
    image = pixels(page, "compare")
    assert hue(image, BEFORE).sum() == 0 and hue(image, SELECTED).sum() == 0


def test_compare_tells_numbers_kinds_and_tokens(panels_page):
    page, bench = panels_page("compare", prepare=compared(t_max=5))
    table = page.inner_text(".sfi-compare [data-name=kept]")
    kept = next(m for m in bench.compare.metrics if m["name"] == "kept")
    assert f"{100 * kept['a']:.2f} %" in table and f"{100 * kept['b']:.2f} %" in table
    kinds = page.eval_on_selector_all(
        ".sfi-compare [data-name=kept] .sfi-kind", "all => all.map((k) => k.dataset.kind)"
    )
    assert kinds == ["exact", "proxy", "proxy"]
    assert "tokens part at 5; 4 of 6" in page.inner_text(".sfi-compare")
    assert page.eval_on_selector_all(".sfi-compare .sfi-first", "all => all.map((e) => e.textContent)") == ["e", "x"]
    page.evaluate(
        "compare.receive({error: 'layer 7 was recorded without queries and keys', a: {}, b: {}, metrics: []})"
    )
    assert page.is_hidden(".sfi-compare .sfi-canvas") and "layer 7" in page.inner_text(".sfi-compare [role=alert]")


def test_streams_and_bound_are_drawn(panels_page):
    page, _ = panels_page(
        "timing", timeline=pl.DataFrame(ROWS), prepare=lambda bench: setattr(bench.timing, "bandwidth", 0.002)
    )
    image = pixels(page, "timing .sfi-streams")
    width = image.shape[1]
    left, right = 72, width - 14
    blue, green = hue(image, RECENT), hue(image, SELECTED)
    main, selector = 8 + 13, 8 + 30 + 13
    at = lambda ms: left + int(ms * (right - left))  # noqa: E731
    assert blue[main, at(0.2)] and blue[main, at(0.6)] and not blue[main, at(0.9)]
    assert green[selector, at(0.55)] and not green[selector, at(0.2)]
    assert close_to(pixels(page, "timing"), (36, 41, 47), 40).sum() > 100, "the bound's line"
    assert "memory bound" in page.inner_text(".sfi-timing .sfi-legend >> nth=0")
    page.fill(".sfi-timing input[type=number]", "50")
    page.press(".sfi-timing input[type=number]", "Tab")
    assert page.evaluate("timing.saved.at(-1)") == {"bandwidth": 50}


def test_shift_click_makes_a_mean_and_every_head_keeps_its_colour(panels_page):
    def prepare(bench):
        bench.state.kv_head, bench.state.among = -1, (0, 2)

    page, _ = panels_page("heads", "selection", prepare=prepare)
    image = pixels(page, "heads")
    swatches = image[:, 52:58]
    assert [close_to(swatches, rgb(c)).sum() > 30 for c in HEADS] == [True] * 3
    chart = pixels(page, "selection")[21:98]
    drawn = [hue(chart, c)[:, 64:-16].sum() for c in HEADS]
    assert drawn[0] > 40 and drawn[2] > 40 and drawn[1] < 10, f"heads 0 and 2 are shown, head 1 is not: {drawn}"
    assert page.inner_text(".sfi-selection .sfi-heads-key").split() == ["KV", "0", "KV", "2"]
    box = page.locator(".sfi-heads canvas").bounding_box()
    step = (box["width"] - 76) / 4

    def click(layer, head, *keys):
        place = {"x": 62 + (layer + 0.5) * step, "y": 6 + (head + 0.5) * 18}
        page.click(".sfi-heads canvas", position=place, modifiers=list(keys))
        return page.evaluate("[hub.get('layer'), hub.get('kv_head'), hub.get('among')]")

    assert click(3, 0) == [3, 0, []]
    assert click(3, 1, "Shift") == [3, -1, [0, 1]]
    assert "mean of KV heads 0, 1" in page.inner_text(".sfi-heads .sfi-statement")
    assert click(3, 0, "Shift") == [3, 1, []]
    assert click(3, 1) == [3, -1, []], "a second click goes back to the mean of all"
    assert click(0, 1) == [3, -1, []], "layer 0 was not recorded"


def test_summary_line_and_progress(panels_page):
    page, _ = panels_page("heads")
    assert page.is_hidden(".sfi-heads progress")
    page.evaluate("heads.receive({busy: true, progress: 0.5, summary: '', summary_kind: ''})")
    assert page.is_visible(".sfi-heads progress") and "all layers" in page.inner_text(".sfi-heads .sfi-summary")
    page.evaluate("heads.receive({busy: false, progress: 1, summary: 'mass kept 91 %', summary_kind: 'proxy'})")
    assert page.is_hidden(".sfi-heads progress")
    assert page.inner_text(".sfi-heads .sfi-summary").replace("\n", " ").strip() == "mass kept 91 % proxy"


def test_decode_again_marks_only_a_token_that_differs(panels_page):
    page, bench = panels_page("decode")
    recorded, words = bench.session.trace.token_ids, bench.session.trace.steps["text"].to_list()
    marked = "[...document.querySelectorAll('.sfi-decode .sfi-first')].map((e) => e.textContent)"
    page.evaluate("([ids, words]) => decode.receive({ids, words})", [recorded[:12], words[:12]])
    assert page.evaluate(marked) == [], "a shorter run that agrees differs nowhere"
    assert page.inner_text(".sfi-decode .sfi-statement").endswith("the first 12 tokens are the same")
    texts = page.eval_on_selector_all(".sfi-decode .sfi-run", "all => all.map((e) => e.textContent)")
    assert texts == ["".join(words), "".join(words[:12])]
    page.evaluate("([ids, words]) => decode.receive({ids, words})", [[*recorded[:4], 7, 8], [*words[:4], " x", " y"]])
    assert page.evaluate(marked) == [words[4], " x"]
