"""The notebook in a real JupyterLab: every control is moved, and what should change changes. Nothing leaves the machine."""

import shutil
from pathlib import Path

import nbformat
import pytest
from ui_browser import Watch, frame_sizes, jupyter_server

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]

SELECTS = {"trigger": "period", "fire_on": "next_sentence", "recent_mode": "pinned", "rectify": "true"}


@pytest.fixture(scope="module")
def lab_page(chromium, tmp_path_factory):
    """The notebook's first cells, up to the one that shows the workbench, run in JupyterLab. -> (page, frame sizes)."""
    root = tmp_path_factory.mktemp("jupyter")
    folder = root / "notebooks"
    folder.mkdir()
    shutil.copytree(ROOT / "data" / "traces", root / "data" / "traces")
    notebook = nbformat.read(ROOT / "notebooks" / "01_workbench.ipynb", as_version=4)
    last = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and "Workbench(" in cell.source)
    notebook.cells = notebook.cells[: last + 1]
    nbformat.write(notebook, folder / "workbench.ipynb")
    context = chromium.new_context(viewport={"width": 1400, "height": 1100})
    page, watch = context.new_page(), Watch()
    sizes = frame_sizes(page)
    with jupyter_server(folder) as server:
        watch.over(page, server.url)
        server.open(page, "workbench.ipynb")
        page.wait_for_selector(".sfi-map canvas[data-frame]", timeout=60_000)
        page.wait_for_selector(".sfi-controls .sfi-code", timeout=20_000)
        page.set_default_timeout(20_000)
        page.evaluate("document.querySelectorAll('.sfi-controls details').forEach((d) => { d.open = true; })")
        yield page, sizes
        assert watch.outside == [], f"requests that leave 127.0.0.1: {watch.outside}"
        assert watch.errors == [], f"errors in the console: {watch.errors}"
    context.close()


def code(page):
    return page.input_value(".sfi-code")


def settled(page, before):
    page.wait_for_function("(before) => document.querySelector('.sfi-code').value !== before", arg=before)
    return code(page)


def frames(page):
    return [int(page.get_attribute(f".sfi-{name} canvas[data-frame]", "data-frame")) for name in ("map", "selection")]


def wait_for_paint(page, before):
    page.wait_for_function(
        "(before) => ['map', 'selection'].every((n, i) => +document.querySelector(`.sfi-${n} canvas[data-frame]`).dataset.frame > before[i])",
        arg=before,
    )


def reset(page):
    page.click("[data-preset=released]")
    page.wait_for_selector("[data-preset=recorded][aria-pressed=false]")
    page.click("[data-preset=recorded]")
    page.wait_for_selector("[data-preset=recorded][aria-pressed=true]")


def test_every_slider_changes_the_settings_and_the_pictures(lab_page):
    page, _ = lab_page
    names = page.evaluate("[...document.querySelectorAll('.sfi-controls [type=range]')].map((r) => r.dataset.field)")
    assert {"k", "t_max", "lam_clip", "nms_strength", "exclusivity", "sink", "recent"} <= set(names)
    for name in names:
        reset(page)
        if name == "lam":
            page.check("[data-field=lam-fixed]")
            page.wait_for_function("document.querySelector('.sfi-code').value.includes('lam=')")
        if name in (
            "gamma",
            "beta",
            "power",
            "eta",
            "norm_weight",
            "position_weight",
        ):  # with the paper's small λ the prior decides nothing
            page.fill(".sfi-code", "Settings.paper(recent=64, k=96, lam=0.9)")
            page.press(".sfi-code", "Enter")
            page.locator(".sfi-code").blur()
            page.wait_for_function("document.querySelector('[data-field=lam-fixed]').checked")
            page.wait_for_timeout(400)
        if name == "t_max":
            page.fill("[data-field=t_max][type=range]", "8")
        before, painted = code(page), frames(page)
        page.focus(f"[data-field={name}][type=range]")
        page.keyboard.press("ArrowLeft" if name in ("k", "t_max", "recent", "alpha") else "ArrowRight")
        after = settled(page, before)
        assert f"{name}=" in after, f"{name}: {before} became {after}"
        # these move no refresh of this recording: other triggers' own, or gaps shorter than its sentences
        if name not in ("period", "seed", "drift_threshold", "min_gap", "cooldown"):
            wait_for_paint(page, painted)
    reset(page)


def test_every_choice_changes_the_settings(lab_page):
    page, _ = lab_page
    for name, value in SELECTS.items():
        reset(page)
        before = code(page)
        page.select_option(f"[data-field={name}]", value)
        wanted = "rectify=True" if name == "rectify" else f"{name}='{value}'"
        assert wanted in settled(page, before)
    reset(page)


def test_layer_and_head_change_what_is_shown(lab_page):
    page, _ = lab_page
    for field, value, words in (
        ("layer", "4", "layer 4, "),
        ("kv_head", "-1", "mean of KV heads"),
        ("layer", "14", "layer 14, "),
        ("kv_head", "0", "KV head 0"),
    ):
        page.select_option(f"[data-field={field}]", value)
        page.wait_for_function(
            "(w) => document.querySelector('.sfi-map .sfi-statement').textContent.includes(w)", arg=words
        )


def test_a_layer_without_queries_says_so_in_the_panel(lab_page):
    page, _ = lab_page
    page.select_option("[data-field=layer]", "7")
    page.wait_for_function(
        "document.querySelector('.sfi-controls [role=alert]').textContent.startsWith('layer 7 was recorded without')"
    )
    assert page.inner_text(".sfi-controls .sfi-kind") == "recording"
    page.select_option("[data-field=layer]", "14")
    page.wait_for_selector(".sfi-controls [role=alert]", state="hidden")


def test_t_max_turns_the_badge_to_proxy_and_moves_refreshes(lab_page):
    page, _ = lab_page
    reset(page)
    assert page.inner_text(".sfi-controls .sfi-kind") == "exact"
    page.fill(".sfi-controls [data-name=t_max] .sfi-number", "8")
    page.keyboard.press("Tab")
    page.wait_for_function("document.querySelector('.sfi-controls .sfi-kind').textContent === 'proxy'")
    reset(page)
    page.wait_for_function("document.querySelector('.sfi-controls .sfi-kind').textContent === 'exact'")


def test_code_box_and_errors(lab_page):
    page, _ = lab_page
    page.fill(".sfi-code", "Settings.paper(k=0)")
    page.press(".sfi-code", "Enter")
    page.wait_for_function(
        "document.querySelector('.sfi-controls [role=alert]').textContent.includes('k = 0 is not allowed')"
    )
    page.fill(".sfi-code", "Settings.released(k=33, recent=64)")
    page.press(".sfi-code", "Enter")
    page.wait_for_function("document.querySelector('[data-name=k] .sfi-number').value === '33'")
    page.locator(".sfi-code").blur()
    reset(page)


def test_cursor_is_shared(lab_page):
    page, _ = lab_page
    page.focus(".sfi-map canvas[data-frame]")
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.sfi-text .sfi-statement').textContent.startsWith('step 199, ')")
    assert "at step 199:" in page.inner_text(".sfi-selection .sfi-statement")
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.sfi-text .sfi-statement').textContent.startsWith('step 0, ')")


def test_settings_are_summed_up_over_all_layers(lab_page):
    page, _ = lab_page
    reset(page)
    page.fill(".sfi-controls [data-name=k] .sfi-number", "40")
    page.keyboard.press("Tab")
    page.wait_for_function(
        "document.querySelector('.sfi-heads .sfi-summary').textContent.includes('current settings, 3 layers: mass kept')"
    )
    assert page.inner_text(".sfi-heads .sfi-summary .sfi-kind") == "exact"
    page.select_option(".sfi-heads select", "stability")
    page.wait_for_function(
        "/layer 14, KV head 0: 0\\.\\d+ \\(exact\\)/.test(document.querySelector('.sfi-heads .sfi-statement').textContent)"
    )
    page.select_option(".sfi-heads select", "now_missed")
    page.wait_for_function(
        "document.querySelector('.sfi-heads .sfi-statement').textContent.includes('missed mass, current settings')"
    )
    page.select_option(".sfi-heads select", "missed")
    reset(page)


def test_shift_click_shows_the_mean_of_two_heads(lab_page):
    page, _ = lab_page
    box = page.locator(".sfi-heads canvas").bounding_box()
    place = {"x": 62 + 14.5 * (box["width"] - 76) / 30, "y": 6 + 2.5 * 18}
    page.click(".sfi-heads canvas", position=place, modifiers=["Shift"])
    page.wait_for_function(
        "document.querySelector('.sfi-map .sfi-statement').textContent.includes('mean of KV heads 0, 2')"
    )
    page.wait_for_selector(".sfi-selection .sfi-heads-key .sfi-key")
    page.click(".sfi-heads canvas", position=place, modifiers=["Shift"])
    page.wait_for_function(
        "document.querySelector('.sfi-map .sfi-statement').textContent.startsWith('layer 14, KV head 0')"
    )


def test_every_tab_says_what_it_answers(lab_page):
    """Those that were never opened too, and a click on one takes none away."""
    page, _ = lab_page
    titles = "() => [...document.querySelectorAll('.sfi-workbench .lm-TabBar-tab')].map((e) => [e.textContent.trim(), e.title])"
    page.wait_for_function(f"({titles})().every(([, title]) => title)")
    before = page.evaluate(titles)
    assert [name for name, _ in before] == ["Text", "Compare", "Anatomy", "Stability", "Timing"]
    assert len({title for _, title in before}) == 5
    page.click(".lm-TabBar-tabLabel >> text=Stability")
    page.wait_for_selector(".sfi-stability canvas[data-frame]")
    assert page.evaluate(titles) == before
    page.click(".lm-TabBar-tabLabel >> text=Text")


def test_compare_pins_the_current_settings(lab_page):
    page, _ = lab_page
    reset(page)
    page.click("text=Compare >> nth=0")
    page.wait_for_selector(".sfi-compare canvas[data-frame]")
    page.wait_for_selector(".sfi-compare [data-name=overlap]")
    assert page.inner_text(".sfi-compare [data-name=overlap] td").startswith("1.00")
    page.fill(".sfi-controls [data-name=k] .sfi-number", "20")
    page.keyboard.press("Tab")
    page.wait_for_function("document.querySelector('.sfi-compare').textContent.includes('k=20')")
    page.click(".sfi-compare [data-do=pin]")
    page.wait_for_function(
        "document.querySelector('.sfi-compare [data-name=overlap] td').textContent.startsWith('1.00')"
    )
    reset(page)
    page.wait_for_function(
        "!document.querySelector('.sfi-compare [data-name=overlap] td').textContent.startsWith('1.00')"
    )
    page.click(".sfi-compare [data-do=unpin]")
    page.wait_for_function(
        "document.querySelector('.sfi-compare [data-name=overlap] td').textContent.startsWith('1.00')"
    )
    page.click(".lm-TabBar-tabLabel >> text=Text")


def test_decode_again_streams_a_new_run(lab_page):
    page, _ = lab_page
    reset(page)
    page.fill(".sfi-decode input[type=number]", "6")
    page.keyboard.press("Tab")
    page.wait_for_timeout(300)
    page.click(".sfi-decode .sfi-primary")
    page.wait_for_function(
        "document.querySelector('.sfi-decode .sfi-statement').textContent.includes('re-run done')", timeout=180_000
    )
    assert page.inner_text(".sfi-decode .sfi-statement").endswith("the first 6 tokens are the same")
    assert page.get_attribute(".sfi-decode", "data-words") == "6"
    assert page.locator(".sfi-decode .sfi-first").count() == 0, "the new run stopped; nothing differs"
    assert page.is_hidden(".sfi-decode [role=alert]")


def test_a_reload_keeps_settings_and_cursor(lab_page):
    page, sizes = lab_page
    page.fill(".sfi-controls [data-name=k] .sfi-number", "50")
    page.keyboard.press("Tab")
    page.wait_for_function("document.querySelector('.sfi-code').value.includes('k=50')")
    page.focus(".sfi-map canvas[data-frame]")
    page.keyboard.press("End")
    page.wait_for_timeout(500)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(800)
    page.goto(page.url.split("&reset")[0].replace("reset", ""))
    page.wait_for_selector(".sfi-map canvas[data-frame]", timeout=60_000)
    page.wait_for_function("document.querySelector('.sfi-code')?.value.includes('k=50')")
    assert page.inner_text(".sfi-text .sfi-statement").startswith("step 199, ")
    assert max(sizes) < 2_000_000, f"a message of {max(sizes):,} bytes"
