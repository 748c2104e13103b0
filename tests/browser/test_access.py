"""Every panel by keyboard, with names and tooltips, and in narrow cells."""

import pytest

pytestmark = pytest.mark.browser

ALL = ("heads", "controls", "run", "map", "selection", "text", "compare", "anatomy", "stability", "timing", "decode")
CONTROLS = "button, select, input, summary, canvas"


def awake(bench):
    bench.compare.live = bench.anatomy.live = bench.stability.live = True
    bench.state.cursor = 30
    bench.set(lam=0.4)
    assert bench.stability.wait(60) and bench.heads.wait(60)


def test_every_control_has_a_name_and_a_tooltip(panels_page):
    page, _ = panels_page(*ALL, prepare=awake)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    unnamed, untold = page.evaluate(
        """(all) => {
          const told = (e) => e.closest('[title]')?.title;
          const named = (e) => e.getAttribute('aria-label') || e.getAttribute('aria-hidden') || e.labels?.length || e.textContent.trim();
          const found = [...document.querySelectorAll(all)], brief = (e) => e.outerHTML.slice(0, 120);
          return [found.filter((e) => !named(e)).map(brief), found.filter((e) => !told(e)).map(brief)]; }""",
        CONTROLS,
    )
    assert unnamed == []
    assert untold == []
    silent = page.evaluate(
        "[...document.querySelectorAll('canvas[tabindex], [role=region], section')].filter((e) => !e.getAttribute('aria-label')).map((e) => e.outerHTML.slice(0, 120))"
    )
    assert silent == []


def test_a_pictures_title_gives_way_to_what_hovers_over_it(panels_page):
    """The browser's own tooltip would lie over the panel's."""
    page, _ = panels_page("map")
    title = "() => document.querySelector('.sfi-map canvas').title"
    box = page.locator(".sfi-map canvas").bounding_box()
    assert page.evaluate(title).startswith("Support map: ")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator(".sfi-map .sfi-tip").is_visible() and page.evaluate(title) == ""
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    assert page.locator(".sfi-map .sfi-tip").is_hidden() and page.evaluate(title).startswith("Support map: ")


def test_every_legend_entry_and_kind_explains_itself(panels_page):
    page, _ = panels_page(*ALL, prepare=awake)
    kinds = page.evaluate(
        "[...document.querySelectorAll('.sfi-kind')].filter((e) => e.textContent && !e.title).map((e) => e.closest('section').getAttribute('aria-label'))"
    )
    assert kinds == [], "what exact and proxy mean is one hover away"


def test_tab_reaches_every_panel_in_reading_order(panels_page):
    page, _ = panels_page(*ALL, prepare=awake)
    page.evaluate("document.body.focus()")
    order = []
    for _ in range(160):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.closest('section')?.getAttribute('aria-label') ?? ''")
        if name and (not order or order[-1] != name):
            order.append(name)
        if order and not name:
            break
    expected = page.evaluate("[...document.querySelectorAll('section')].map((s) => s.getAttribute('aria-label'))")
    assert order == expected


@pytest.mark.parametrize("width", [320, 600])
def test_no_panel_sticks_out_of_a_narrow_cell(panels_page, width):
    page, _ = panels_page(*ALL, prepare=awake, width=width)
    wide = page.evaluate(
        """() => [...document.querySelectorAll('section')].flatMap((s) => [...s.querySelectorAll('*')].filter((e) =>
          e.getBoundingClientRect().right > s.getBoundingClientRect().right + 1 && !e.closest('.sfi-pane, .sfi-run, .sfi-scroll')
        ).map((e) => `${s.getAttribute('aria-label')}: ${e.outerHTML.slice(0, 90)}`).slice(0, 3))"""
    )
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_heads_by_keyboard(panels_page):
    page, _ = panels_page("heads")
    page.evaluate("hub.set('kv_head', 0)")
    page.focus(".sfi-heads canvas")
    chosen = lambda key: page.keyboard.press(key) or page.evaluate("[hub.get('kv_head'), hub.get('among')]")  # noqa: E731
    assert chosen("2") == [-1, [0, 2]]
    assert chosen("0") == [2, []], "taken out again"
    assert chosen("7") == [2, []], "there is no head 7"
    assert chosen("ArrowUp") == [1, []]
    assert chosen("Escape") == [-1, []]
    assert "mean of KV heads" in page.inner_text(".sfi-heads .sfi-statement")
