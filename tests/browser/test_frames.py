"""Panels that follow a slider in a real browser: one paint a frame, none while hidden, text that stays in the page."""

import pytest

pytestmark = pytest.mark.browser

FRAMES = "(name) => Number(document.querySelector(`.sfi-${name} canvas[data-frame]`).dataset.frame)"
SETTLE = 400  # ms: longer than panels that are scrolled away wait


def frames(page, *names):
    return [page.evaluate(FRAMES, name) for name in names]


def say(page, name):
    return page.evaluate(f"document.querySelector('.sfi-{name} .sfi-statement').textContent")


def test_a_burst_of_changes_is_one_paint_with_the_newest(panels_page):
    page, _ = panels_page("map", "selection")
    before = frames(page, "map", "selection")
    page.evaluate("for (let k = 1; k <= 20; k++) { hub.set('k_live', k); hub.set('cursor', 10 + k); }")
    page.wait_for_function(
        "document.querySelector('.sfi-selection .sfi-statement').textContent.includes('20 selected')"
    )
    page.wait_for_timeout(SETTLE)
    assert frames(page, "map", "selection") == [n + 1 for n in before]
    assert page.get_attribute(".sfi-map canvas", "data-k") == "20" and "at step 30: 20 selected" in say(
        page, "selection"
    )


def test_a_hidden_panel_does_not_paint_until_it_is_shown(panels_page):
    page, _ = panels_page("map", "selection")
    page.evaluate("document.querySelector('.sfi-selection').style.display = 'none'")
    page.wait_for_timeout(100)
    before, words = frames(page, "map", "selection"), say(page, "selection")
    for k in (3, 4, 5):
        page.evaluate(f"hub.set('k_live', {k})")
        page.wait_for_timeout(60)
    page.wait_for_timeout(SETTLE)
    after = frames(page, "map", "selection")
    assert after[0] == before[0] + 3 and after[1] == before[1], "the map follows, the hidden panel does nothing"
    assert say(page, "selection") == words
    page.evaluate("document.querySelector('.sfi-selection').style.display = ''")
    page.wait_for_function("document.querySelector('.sfi-selection .sfi-statement').textContent.includes('5 selected')")
    page.wait_for_timeout(100)
    assert before[1] < frames(page, "selection")[0] <= before[1] + 2


def test_a_panel_scrolled_away_catches_up_once_changes_have_settled(panels_page):
    page, _ = panels_page("map", "anatomy", "selection", "text", "run")
    page.wait_for_timeout(SETTLE)
    assert page.evaluate("document.querySelector('.sfi-run').getBoundingClientRect().top > innerHeight")
    before, words = frames(page, "map", "run"), say(page, "text")
    page.evaluate(
        """async () => { for (let i = 1; i <= 12; i++) {
        hub.set('cursor', i); hub.set('brush', [0, 60 - i]); await new Promise((done) => setTimeout(done, 25)); } }"""
    )
    during = frames(page, "map", "run")
    page.wait_for_timeout(SETTLE)
    after = frames(page, "map", "run")
    assert during[0] > before[0] + 3, "what is in sight follows"
    assert (during[1], after[1]) == (before[1], before[1] + 1), "the run strip is out of sight: one paint, afterwards"
    assert words != say(page, "text") and say(page, "text").startswith("step 12, ")


def test_the_run_strip_repaints_for_new_results_only_where_it_shows_them(panels_page):
    page, _ = panels_page("run", "selection")
    again = "hub.receive({mass: {...hub.get('mass')}})"
    page.select_option(".sfi-run select", "keys_read")
    page.wait_for_timeout(SETTLE)
    before = frames(page, "run", "selection")
    page.evaluate(again)
    page.wait_for_timeout(SETTLE)
    assert frames(page, "run", "selection") == [before[0], before[1] + 1]
    page.select_option(".sfi-run select", "kept")
    page.wait_for_timeout(SETTLE)
    before = frames(page, "run")
    page.evaluate(again)
    page.wait_for_timeout(SETTLE)
    assert frames(page, "run") == [before[0] + 1]


def test_text_stays_in_the_page_and_only_its_looks_change(panels_page, trace):
    page, bench = panels_page("text")
    page.evaluate("hub.set('cursor', 30)")
    page.wait_for_function("document.querySelector('.sfi-text').dataset.step === '30'")
    page.evaluate("document.querySelectorAll('.sfi-line span').forEach((s) => { s.known = true; })")
    tinted = "[...document.querySelectorAll('[data-kind=selected]')].map((s) => Number(s.dataset.i))"
    before = set(page.evaluate(tinted))
    page.evaluate("hub.set('k_live', 3)")
    page.wait_for_function("document.querySelector('.sfi-text .sfi-statement').textContent.includes('3 selected')")
    after = set(page.evaluate(tinted))
    assert after < before and after <= set(
        bench.session.now.ranking.at(bench.session.now.ranking.steps.searchsorted(30, "right") - 1, 3)
    )
    assert page.evaluate("[...document.querySelectorAll('.sfi-line span')].every((s) => s.known)"), (
        "no token was made anew"
    )
    plain = page.evaluate(
        "(gone) => gone.map((i) => document.querySelector(`.sfi-line span[data-i='${i}']`)).filter((s) => s && !s.dataset.kind).map((s) => s.style.backgroundColor)",
        sorted(before - after),
    )
    assert set(plain) <= {""}, "what is no longer selected and not attended loses its tint"
    page.evaluate("document.querySelectorAll('.sfi-pane')[1].scrollTop = 26 * 5")
    page.wait_for_timeout(100)
    order = page.evaluate(
        "[...document.querySelectorAll('.sfi-pane')].map((p) => [...p.querySelectorAll('span')].map((s) => Number(s.dataset.i)))"
    )
    assert all(pane == sorted(pane) for pane in order), "lines stand in reading order in the page too"
    page.evaluate("document.querySelectorAll('.sfi-pane')[1].scrollTop = 0")
    page.wait_for_timeout(100)
    order = page.evaluate(
        "[...document.querySelectorAll('.sfi-pane')[1].querySelectorAll('span')].map((s) => Number(s.dataset.i))"
    )
    assert order == sorted(order) and order[0] == 0
