"""Panels in a real browser without Jupyter: fake models, real canvases, pixels read back."""

import numpy as np
import pytest

from canvas_pixels import BEFORE, RECENT, SELECTED, SINK, hue, pixels

pytestmark = pytest.mark.browser


def test_map_shows_sink_recent_and_selected_where_they_are(panels_page):
    page, bench = panels_page("map")
    image = pixels(page, "map")
    height, width = image.shape[:2]
    left, right, top, bottom = 62, width - 14, 22, height - 34
    positions = bench.state.positions

    def row(position):
        return top + int((position + 0.5) * (bottom - top) / positions)

    def column(step):
        return left + int((step + 0.5) * (right - left) / bench.state.steps)

    sink = hue(image, SINK)
    assert sink[row(0), left + 30 : right - 8].mean() > 0.6, "the sink's rows carry its hue"
    assert not sink[row(50) : bottom].any()
    step = 33
    position = 180 - 1 + step
    recent = hue(image, RECENT)
    assert recent[row(position - 8), column(step) - 2 : column(step) + 3].any()
    assert not recent[row(100), left:right].any(), "no recent window in the middle of the document"
    assert not hue(image, RECENT)[row(position + 12), column(step)], "positions that are not written yet are empty"
    chosen = bench.session.selected_at(step)
    green = hue(image, SELECTED, 12)[:, column(step)]
    hits = [green[row(int(p)) - 1 : row(int(p)) + 2].any() for p in chosen]
    assert np.mean(hits) > 0.8, f"only {sum(hits)} of {len(hits)} selected positions are green"


def test_k_is_a_prefix_without_the_kernel(panels_page):
    page, _ = panels_page("map", "selection")
    before = hue(pixels(page, "map"), SELECTED, 12).sum()
    page.evaluate("hub.set('k_live', 2)")
    after = hue(pixels(page, "map"), SELECTED, 12).sum()
    assert after < before / 3
    assert "2 selected" in page.inner_text(".sfi-selection .sfi-statement")
    assert hue(pixels(page, "selection"), BEFORE).sum() > 500, "what only the recording kept turns amber"
    page.evaluate("hub.set('k_live', null)")
    assert hue(pixels(page, "map"), SELECTED, 12).sum() == before


def test_a_new_result_is_painted(panels_page, trace):
    page, bench = panels_page("selection")
    assert "0 only now, 0 only recorded" in page.inner_text(".sfi-selection .sfi-statement")
    before = pixels(page, "selection")
    from sfi_widgets.export import _plain

    bench.set(lam=1.0)
    page.evaluate(
        """(values) => {
          const revive = (v) => (v && v.base64 !== undefined ? new DataView(Uint8Array.from(atob(v.base64), (c) => c.charCodeAt(0)).buffer)
            : Array.isArray(v) ? v : v && typeof v === 'object' ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, revive(x)])) : v);
          hub.receive(revive(values));
        }""",
        _plain({"now": bench.session.hub.now, "mass": bench.session.hub.mass}),
    )
    after = pixels(page, "selection")
    assert (before != after).any(-1).sum() > 2000
    now, recorded = set(bench.session.selected_at(1)), set(bench.session.recorded.at(0, 24))
    assert f"{len(now & recorded)} as recorded, {len(now - recorded)} only now" in page.inner_text(
        ".sfi-selection .sfi-statement"
    )


def test_keys_zoom_pan_and_move_the_cursor(panels_page):
    page, _ = panels_page("map", "text")
    page.focus(".sfi-map canvas")
    page.keyboard.press("+")
    zoomed = page.evaluate("[...hub.get('brush'), ...hub.get('span')]")
    assert zoomed[1] - zoomed[0] < 60 and zoomed[3] - zoomed[2] < 240
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("hub.get('brush')[0]") > zoomed[0]
    page.keyboard.press("0")
    assert page.evaluate("[...hub.get('brush'), ...hub.get('span')]") == [0, 60, 0, 240]
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("hub.get('cursor')") == 4
    page.wait_for_function("document.querySelector('.sfi-text .sfi-statement').textContent.startsWith('step 4, ')")
    page.wait_for_timeout(120)
    assert page.evaluate("hub.saved.at(-1).cursor") == 4, "the kernel is told"


def test_hover_and_click_on_the_map(panels_page, trace):
    page, _ = panels_page("map")
    box = page.locator(".sfi-map canvas").bounding_box()
    step = 21
    x = box["x"] + 62 + (step + 0.5) * (box["width"] - 76) / 60
    y = box["y"] + 22 + 100.5 * (340 - 56) / 240
    page.mouse.move(x, y)
    tip = page.inner_text(".sfi-map .sfi-tip")
    assert f"step {step}" in tip and "position" in tip
    page.mouse.click(x, y)
    assert page.evaluate("hub.get('cursor')") == step
    assert page.evaluate("hub.get('probe')") in range(98, 103)
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    assert page.locator(".sfi-map .sfi-tip").is_hidden()


def test_wheel_scrolls_the_page_until_the_map_has_focus(panels_page):
    page, _ = panels_page("map")
    box = page.locator(".sfi-map canvas").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    page.mouse.wheel(0, -240)
    page.wait_for_timeout(60)
    assert page.evaluate("hub.get('brush')") == [0, 60]
    page.focus(".sfi-map canvas")
    page.mouse.wheel(0, -240)
    page.wait_for_timeout(60)
    brush = page.evaluate("hub.get('brush')")
    assert brush[1] - brush[0] < 60


def test_text_marks_slow_steps_and_what_is_kept(panels_page, trace):
    page, bench = panels_page("text")
    slow = page.evaluate("[...document.querySelectorAll('.sfi-slow')].map((s) => [s.dataset.i, s.dataset.mark])")
    steps = trace.steps.filter(trace.steps["route"] == "slow")
    marks = {"first": "1", "sentence": "S", "t_max": "T"}
    expected = [[str(p + 1), marks[r]] for p, r in zip(steps["position"], steps["reason"], strict=True)]
    assert slow == expected[: len(slow)] and len(slow) > 2
    page.click(".sfi-column:first-child span[data-i='200']")
    assert page.evaluate("hub.get('cursor')") == 20, "token 200 was written by step 20"
    page.wait_for_function("document.querySelector('.sfi-text').dataset.step === '20'")
    kept = {
        int(i) for i in page.evaluate("[...document.querySelectorAll('[data-kind=selected]')].map((s) => s.dataset.i)")
    }
    visible = {
        int(i)
        for i in page.evaluate("[...document.querySelectorAll('.sfi-line span[data-i]')].map((s) => s.dataset.i)")
    }
    assert kept == set(bench.session.selected_at(20).tolist()) & visible and kept
    assert page.get_attribute("span.sfi-cursor", "data-i") == "200"
    odd, even = (page.evaluate(f"document.querySelectorAll('.sfi-{name}').length") for name in ("odd", "even"))
    assert odd and even, "sentences alternate"


def test_a_reason_of_another_policy_has_a_letter_and_its_place_in_the_legends(panels_page):
    def prepare(bench):
        run = dict(bench.session.hub.run)
        run["reason"] = ["every_verb" if reason == "sentence" else reason for reason in run["reason"]]
        bench.session.hub.run = run

    page, _ = panels_page("run", "text", prepare=prepare)
    marks = page.evaluate("[...document.querySelectorAll('.sfi-slow')].map((s) => [s.dataset.mark, s.dataset.reason])")
    assert ["E", "every verb"] in marks and all(letter for letter, _ in marks)
    for panel in ("run", "text"):
        assert "E every verb" in page.inner_text(f".sfi-{panel} .sfi-legend") and "S sentence" not in page.inner_text(
            f".sfi-{panel} .sfi-legend"
        )


def test_text_is_virtual_and_searchable(panels_page, trace):
    page, _ = panels_page("text")
    assert page.evaluate("document.querySelectorAll('.sfi-column:last-child .sfi-line').length") < 40
    tokens = trace.tokens["text"].to_list()
    needle = (tokens[120] + tokens[121]).strip().upper()
    page.fill(".sfi-text input[type=search]", needle)
    found = "".join(tokens).upper().count(needle)
    assert page.inner_text(".sfi-text .sfi-tools .sfi-hint") == f"1 of {found}" and found
    probe = page.evaluate("hub.get('probe')")
    assert (tokens[probe] + tokens[probe + 1]).strip().upper().startswith(needle)


def test_controls_send_what_is_wanted_and_show_errors(panels_page):
    page, _ = panels_page("controls")
    page.focus("[data-field=k][type=range]")
    page.keyboard.press("ArrowRight")
    wanted = page.evaluate("controls.get('wanted')")
    assert wanted["values"]["k"] > 24 and wanted["number"] == 1
    assert page.evaluate("hub.get('k_live')") == wanted["values"]["k"]
    assert page.evaluate("controls.sent") == [{"do": "rank"}], "touching K asks for the whole ranking"
    page.check("[data-field=lam-fixed]")
    assert page.evaluate("controls.get('wanted').values.lam") == 0.02
    assert page.is_visible("[data-field=lam]") and page.is_hidden("[data-field=lam_clip]")
    page.select_option("[data-field=trigger]", "never")
    assert page.evaluate("controls.get('wanted').values.trigger") == "never"
    page.fill(".sfi-code", "Settings.paper(k=0)")
    page.press(".sfi-code", "Enter")
    assert page.evaluate("controls.get('wanted').code") == "Settings.paper(k=0)"
    page.evaluate("controls.receive({error: 'setting k = 0 is not allowed', answered: 99})")
    assert page.inner_text("[role=alert]") == "setting k = 0 is not allowed"
    assert page.evaluate("hub.get('k_live')") is None


def test_a_late_answer_does_not_move_a_slider_back(panels_page):
    page, _ = panels_page("controls")
    page.focus("[data-field=k][type=range]")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    mine = page.input_value("[data-field=k][type=range]")
    page.evaluate("controls.receive({values: {...controls.get('values'), k: 25}, answered: 1})")
    assert page.input_value("[data-field=k][type=range]") == mine
    assert page.evaluate("hub.get('k_live')") is not None


@pytest.mark.parametrize("dark", [False, True])
def test_themes_and_narrow_cells(panels_page, dark):
    page, _ = panels_page("controls", "map", "selection", "text", "decode", width=380, dark=dark)
    assert page.get_attribute(".sfi-map", "data-theme") == ("dark" if dark else "light")
    image = pixels(page, "map")
    light = image[image[..., 3] > 200][:, :3].mean()
    assert (light < 128) == dark
    assert page.evaluate("document.documentElement.scrollWidth") <= 380, "nothing sticks out of a narrow cell"


def test_reachable_by_keyboard_and_labelled(panels_page):
    page, _ = panels_page("controls", "map", "selection", "text", "decode")
    unnamed = page.evaluate(
        """[...document.querySelectorAll('input, select, button, canvas[tabindex], [role=region]')].filter((e) =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    untold = page.evaluate(
        "[...document.querySelectorAll('.sfi-controls .sfi-row')].filter((r) => r.dataset.name && !r.title).length"
    )
    assert untold == 0, "every control has a tooltip"


def test_a_brush_on_the_run_strip_sets_the_range_of_all(panels_page):
    page, _ = panels_page("run", "map")
    box = page.locator(".sfi-run canvas").bounding_box()
    width = box["width"] - 76
    y = box["y"] + 60
    page.mouse.move(box["x"] + 62 + width * 10.5 / 60, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 62 + width * 30.5 / 60, y, steps=4)
    page.mouse.up()
    assert page.evaluate("hub.get('brush')") == [10, 31]
    page.wait_for_function("document.querySelector('.sfi-run .sfi-statement').textContent.includes('steps 10-30:')")
    page.select_option(".sfi-run select", "kept")
    assert "mass kept under the settings" in page.inner_text(".sfi-run .sfi-statement")
    assert hue(pixels(page, "run"), RECENT).sum() > 100, "the line is drawn"


def test_head_navigator_solos_and_steps_back_to_the_mean(panels_page):
    page, _ = panels_page("heads")
    image = pixels(page, "heads")
    coloured = (image[..., :3].max(-1).astype(int) - image[..., :3].min(-1) > 60) & (image[..., 3] > 200)
    left, step = 62, (image.shape[1] - 76) / 4
    filled = [coloured[8:40, int(left + l * step) : int(left + (l + 1) * step)].mean() > 0.5 for l in range(4)]
    assert filled == [False, True, False, True], "layers 1 and 3 were recorded"
    box = page.locator(".sfi-heads canvas").bounding_box()
    cell = 18
    page.mouse.click(box["x"] + left + 1.5 * step, box["y"] + 6 + 2.5 * cell)
    assert page.evaluate("[hub.get('layer'), hub.get('kv_head')]") == [1, 2]
    page.mouse.click(box["x"] + left + 1.5 * step, box["y"] + 6 + 2.5 * cell)
    assert page.evaluate("[hub.get('layer'), hub.get('kv_head')]") == [1, -1]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("hub.get('layer')") == 3


def test_deeper_panels_draw_what_they_say(panels_page, trace):
    page, bench = panels_page("anatomy", "stability", "timing")
    assert hue(pixels(page, "anatomy"), SELECTED).sum() == 0, "hidden panels hold nothing until they are asked"
    bench.anatomy.live = bench.stability.live = True
    bench.stability.wait(60)
    from sfi_widgets.export import _plain

    page.evaluate(
        """([a, s]) => {
          const revive = (v) => (v && v.base64 !== undefined ? new DataView(Uint8Array.from(atob(v.base64), (c) => c.charCodeAt(0)).buffer)
            : Array.isArray(v) ? v : v && typeof v === 'object' ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, revive(x)])) : v);
          anatomy.receive(revive(a)); stability.receive(s);
        }""",
        [
            _plain({"stage": bench.anatomy.stage, "error": ""}),
            {"curves": bench.stability.curves, "verdict": bench.stability.verdict, "error": "", "busy": False},
        ],
    )
    image = pixels(page, "anatomy")
    for colour in (SELECTED, RECENT, BEFORE):
        assert hue(image, colour).sum() > 300, f"{colour} is missing from the stages"
    assert f"24 of {bench.anatomy.stage['candidates']}" in page.inner_text(".sfi-anatomy .sfi-statement")
    assert hue(pixels(page, "stability"), RECENT).sum() > 60
    assert "Sentence boundaries" in page.inner_text(".sfi-stability .sfi-body")
    slow = int((trace.steps["route"] == "slow").sum())
    assert f"{slow} slow of 59 steps" in page.inner_text(".sfi-timing .sfi-statement")
