"""The methods panel in a real browser: points where they belong in both themes, hover, legend, keys, prompts, narrow cells."""

import nbformat
import numpy as np
import polars as pl
import pytest
from ui_browser import Watch, frame_sizes, jupyter_server

from canvas_pixels import close_to, pixels
from sfi_widgets import MethodsPanel
from sfi_widgets.methods_points import read_results
from synthetic_results import write_results

pytestmark = pytest.mark.browser

LEFT, TOP, WIDTH, HEIGHT = 62, 10, 76, 340 - 44  # of the plot; what its width lacks of the canvas's
NAVY, ORANGE, DARK_BLUE, DARK_ORANGE = (11, 60, 111), (224, 138, 0), (79, 147, 220), (240, 160, 32)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("evaluation") / "methods")


@pytest.fixture
def opened(exported_page, results, tmp_path):
    """f(width=…, dark=…, **choices) -> (page, panel); window.m is the panel's model."""

    def show(width=900, dark=False, source=None, **choices):
        panel = MethodsPanel(*(source or (results,)), **choices)
        page = exported_page(panel.to_html(tmp_path / "methods.html"), width, dark)
        page.evaluate(f"window.m = window.sfi.models['{panel.model_id}']")
        return page, panel

    return show


def places(panel, width):
    """(x, y) in CSS pixels of every point of a score plot, by (method, budget); also of the second ticks and of dense."""
    rows = panel.frame.filter((pl.col("group") == panel.group) & (pl.col("length") == panel.length))
    arms = rows.filter(pl.col("budget").is_not_null())
    ends = np.concatenate([rows[n].to_numpy() for n in ("score", "score_low", "score_high")])
    room = (ends.max() - ends.min()) * 0.06
    low, high = max(-0.02, ends.min() - room), ends.max() + room
    least, most = np.log(0.8 * arms["read"].min()), np.log(1.15 * max(1, (arms["read"] + arms["looked"]).max()))
    x = lambda v: LEFT + (np.log(v) - least) * (width - WIDTH) / (most - least)  # noqa: E731
    y = lambda v: TOP + HEIGHT - (v - low) * HEIGHT / (high - low)  # noqa: E731
    at = {(r["method"], r["budget"]): (x(r["read"]), y(r["score"])) for r in arms.iter_rows(named=True)}
    ticks = {(r["method"], r["budget"]): x(r["read"] + r["looked"]) for r in arms.iter_rows(named=True) if r["looked"]}
    return at, ticks, {n: y(rows.filter(method="dense")[n].item()) for n in ("score", "score_low", "score_high")}


def near(image, colour, x, y, reach=3):
    """How many pixels about a place have a colour."""
    x, y = round(x), round(y)
    return int(close_to(image[max(0, y - reach) : y + reach + 1, x - reach : x + reach + 1], colour).sum())


@pytest.mark.parametrize(("dark", "blue", "orange"), [(False, NAVY, ORANGE), (True, DARK_BLUE, DARK_ORANGE)])
def test_points_bars_and_second_ticks_stand_where_they_belong(opened, dark, blue, orange):
    page, panel = opened(dark=dark)
    assert page.get_attribute(".sfi-methods", "data-theme") == ("dark" if dark else "light")
    image = pixels(page, "methods")
    at, ticks, dense = places(panel, image.shape[1])
    for arm in (("sfi", 64), ("sfi", 128)):
        assert near(image, blue, *at[arm]) > 25, f"{arm} is not drawn at {at[arm]}"
    hollow = ("oracle", 64)
    assert near(image, orange, *at[hollow], reach=8) > 15 and near(image, orange, *at[hollow], reach=1) == 0
    assert near(image, orange, ticks[hollow], at[hollow][1], reach=5) > 6, "keys looked at only to choose"
    row = panel.frame.filter(group="all", length=0, method="sfi", budget=64).row(0, named=True)
    scale = (dense["score"] - at["sfi", 64][1]) / (row["score"] - row["difference"] - row["score"])
    for end in ("score_low", "score_high"):
        y = at["sfi", 64][1] + (row[end] - row["score"]) * scale
        column = image[:, round(at["sfi", 64][0]) - 1 : round(at["sfi", 64][0]) + 2, :3].astype(int)
        back = np.array([22, 25, 29] if dark else [255, 255, 255])
        inside = round(y) + (3 if end == "score_high" else -3)
        assert (np.abs(column[inside] - back).max(-1) > 40).any(), f"the bar does not reach {end}"
    text = (228, 232, 236) if dark else (36, 41, 47)
    line = close_to(image[round(dense["score"]) - 1 : round(dense["score"]) + 2], text, 60).any(0)
    assert 0.4 < line[LEFT : int(at[hollow][0]) - 9].mean() < 0.9, "dense is a dashed line"
    band = image[round((dense["score"] + dense["score_low"]) / 2), LEFT + 3, :3]
    assert np.abs(band.astype(int) - ([34, 39, 45] if dark else [238, 241, 244])).max() < 4, "its interval is shaded"


def test_hover_names_everything(opened):
    page, panel = opened()
    box = page.locator(".sfi-methods canvas").bounding_box()
    at, _, dense = places(panel, box["width"])
    row = panel.frame.filter(group="all", length=0, method="oracle", budget=64).row(0, named=True)
    page.mouse.move(box["x"] + at["oracle", 64][0] + 3, box["y"] + at["oracle", 64][1] - 2)
    tip = page.inner_text(".sfi-methods .sfi-tip")
    assert "Oracle Top-K, budget 64 · 24 prompts" in tip
    assert f"score {row['score']:.3f}, to dense " in tip and "[" in tip and row["verdict"] in tip and row["verdict"]
    assert f"KL to dense {row['kl']:.3f} nats [" in tip
    assert "reads 10.0 % of the keys, looks at 100.0 % more to choose · keeps 10 % of dense’s bytes" in tip
    page.mouse.move(box["x"] + LEFT + 5, box["y"] + dense["score"])
    assert page.inner_text(".sfi-methods .sfi-tip").startswith("Dense · 24 prompts")
    page.mouse.move(box["x"] + LEFT + 5, box["y"] + TOP + HEIGHT - 4)
    assert page.is_hidden(".sfi-methods .sfi-tip")


def test_a_legend_click_shows_one_method_alone(opened):
    page, panel = opened()
    both = pixels(page, "methods")
    at, _, _ = places(panel, both.shape[1])
    page.click("[data-method=sfi]")
    page.mouse.move(5, 5)
    assert page.evaluate("m.saved.at(-1)") == {"only": ["sfi"]}
    alone = pixels(page, "methods")
    assert close_to(both, ORANGE).sum() > 60 and close_to(alone, ORANGE).sum() == 0
    assert near(alone, NAVY, *at["sfi", 64]) > 25, "the axes stay as they were"
    assert near(alone, NAVY, *at["snapkv", 64]) == 0
    assert page.get_attribute("[data-method=sfi]", "aria-pressed") == "true"
    page.click("[data-method=oracle]", modifiers=["Shift"])
    assert page.evaluate("m.get('only')") == ["sfi", "oracle"]
    page.focus("[data-method=sfi]")
    page.keyboard.press("Shift+Enter")
    assert page.evaluate("m.get('only')") == ["oracle"], "with the keyboard too"
    page.click("[data-family='Chosen once, at the prompt\\'s end'] > button >> nth=0")
    assert page.evaluate("m.get('only')") == ["snapkv", "snapkv:window=16"]
    page.click("text=show all")
    assert page.evaluate("m.get('only')") == [] and page.is_hidden("text=show all")


def test_keys_walk_over_points_and_open_their_prompts(opened):
    page, panel = opened()
    page.focus(".sfi-methods canvas")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".sfi-methods .sfi-tip").startswith("SFI, budget 64")
    page.keyboard.press("ArrowDown")
    assert "SnapKV, budget 64 · score" in page.inner_text(".sfi-methods [aria-live].sfi-aloud")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate("m.saved.at(-1)") == {"selected": ["snapkv", 128]}
    panel.selected = ["snapkv", 128]  # the kernel's answer
    page.evaluate("(worst) => m.receive({worst})", panel.worst)
    found = panel.failing()
    assert (
        page.inner_text(".sfi-samples h4")
        == f"SnapKV, budget 128: {panel.worst['losing']} of 24 prompts lose to dense · listed: all, ordered by score lost"
    )
    tasks = page.eval_on_selector_all(".sfi-samples tbody th", "all => all.map((e) => e.textContent)")
    assert tasks == found["task"].to_list()
    first = page.inner_text(".sfi-samples tbody tr >> nth=0")
    assert "<b>snapkv</b>↵answers wrongly" in first and "<b>dense</b>↵answers rightly" in first, "text stays text"
    page.focus(".sfi-methods canvas")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.evaluate("m.get('selected')") == [] and page.is_hidden(".sfi-samples")


def test_a_cut_list_says_that_it_holds_more_than_what_loses(opened):
    page, panel = opened(selected=["snapkv", 128])
    losing, total = panel.worst["losing"], panel.worst["total"]
    rows = losing + (total - losing) // 2
    assert losing < rows < total
    page.evaluate("(worst) => m.receive({worst})", {**panel.worst, "rows": panel.worst["rows"][:rows]})
    assert page.inner_text(".sfi-samples h4") == (
        f"SnapKV, budget 128: {losing} of {total} prompts lose to dense · listed: {rows} of all {total}, ordered by score lost"
    )


def test_the_statement_counts_methods_and_variants(opened):
    page, _ = opened()
    assert "· 3 methods beside dense (4 with variants) · budgets 64, 128 ·" in page.inner_text(
        ".sfi-methods .sfi-statement"
    )


def test_sfi_is_painted_and_pointed_at_over_its_variants(opened, results):
    """Where a variant has SFI's very numbers, SFI is what is seen and named."""
    summary, samples = read_results(results)
    twin = summary.filter(pl.col("method") == "sfi").with_columns(method=pl.lit("sfi_pinned"))
    page, panel = opened(source=(pl.concat([summary, twin]), samples))
    image = pixels(page, "methods")
    at, _, _ = places(panel, image.shape[1])
    assert near(image, NAVY, *at["sfi", 64], reach=2) > 12, "its own colour in the middle"
    assert near(image, ORANGE, *at["sfi", 64], reach=6) > 8, "the variant's about it"
    box = page.locator(".sfi-methods canvas").bounding_box()
    page.mouse.move(box["x"] + at["sfi", 64][0], box["y"] + at["sfi", 64][1])
    assert page.inner_text(".sfi-methods .sfi-tip").startswith("SFI, budget 64")


def test_a_click_selects_and_says_that_prompts_need_a_kernel(opened):
    page, panel = opened()
    box = page.locator(".sfi-methods canvas").bounding_box()
    at, _, _ = places(panel, box["width"])
    page.mouse.click(box["x"] + at["sfi", 128][0], box["y"] + at["sfi", 128][1])
    assert page.evaluate("m.get('selected')") == ["sfi", 128]
    assert "need the notebook’s kernel" in page.inner_text(".sfi-samples h4")
    page.click(".sfi-samples button")
    assert page.evaluate("m.get('selected')") == []


def test_a_kind_without_scores_is_drawn_by_what_it_has(opened):
    page, _ = opened()
    before = pixels(page, "methods")
    page.select_option("select[aria-label=tasks]", "perplexity:pydoc")
    assert page.evaluate("m.saved.at(-1)") == {"group": "perplexity:pydoc", "quality": "kl"}
    assert page.input_value("select[aria-label=quality]") == "kl"
    assert page.is_disabled("select[aria-label=quality] option[value=score]")
    kl = pixels(page, "methods")
    assert (kl != before).any(-1).sum() > 500 and close_to(kl, NAVY).sum() > 100
    page.select_option("select[aria-label=quality]", "perplexity")
    page.select_option("select[aria-label=length]", "512")
    assert "6 prompts" in page.inner_text(".sfi-methods .sfi-statement")
    assert close_to(pixels(page, "methods"), NAVY).sum() > 100
    page.evaluate("m.receive({quality: 'score'})")
    assert "score was not measured for perplexity:pydoc" in page.inner_text(".sfi-methods .sfi-body")
    assert page.is_hidden(".sfi-methods canvas")


@pytest.mark.parametrize("dark", [False, True])
def test_narrow_cells_names_and_tooltips(opened, dark):
    page, _ = opened(width=380, dark=dark, selected=["sfi", 64])
    assert page.evaluate("document.documentElement.scrollWidth") <= 380, "nothing sticks out of a narrow cell"
    assert page.locator(".sfi-samples tbody tr").count() == 24
    unnamed, untold, silent = page.evaluate(
        """() => {
          const named = (e) => e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim(), brief = (e) => e.outerHTML.slice(0, 120);
          const found = [...document.querySelectorAll('.sfi button, .sfi select')];
          return [found.filter((e) => !named(e)).map(brief), found.filter((e) => !e.closest('[title]')).map(brief),
            [...document.querySelectorAll('canvas[tabindex], [role=region], section')].filter((e) => !e.getAttribute('aria-label')).map(brief)]; }"""
    )
    assert unnamed == untold == silent == []


def test_in_jupyterlab_the_kernel_lists_a_points_prompts(chromium, results, tmp_path):
    code = f"from sfi_widgets import MethodsPanel\npanel = MethodsPanel({str(results)!r})\npanel"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)], metadata=kernel)
    nbformat.write(made, tmp_path / "methods.ipynb")
    context = chromium.new_context(viewport={"width": 1400, "height": 1100})
    page, watch = context.new_page(), Watch()
    sizes = frame_sizes(page)
    with jupyter_server(tmp_path) as server:
        watch.over(page, server.url)
        server.open(page, "methods.ipynb", timeout=60)
        page.set_default_timeout(20_000)
        page.wait_for_selector(".sfi-methods canvas[data-frame]", timeout=60_000)
        page.wait_for_timeout(500)
        sizes.clear()
        box = page.locator(".sfi-methods canvas").bounding_box()
        at, _, _ = places(MethodsPanel(results), box["width"])
        page.mouse.click(box["x"] + at["sfi", 64][0], box["y"] + at["sfi", 64][1])
        page.wait_for_selector(".sfi-samples tbody tr", timeout=20_000)
        assert page.locator(".sfi-samples tbody tr").count() == 24
        page.select_option("select[aria-label=tasks]", "perplexity:pydoc")
        page.wait_for_function("document.querySelectorAll('.sfi-samples tbody tr').length === 12")
        assert "12 of 12 prompts differ from dense · listed: all, ordered by KL to dense" in page.inner_text(
            ".sfi-samples h4"
        )
        assert max(sizes) < 40_000, f"the largest message has {max(sizes)} bytes"
        assert watch.outside == [] and watch.errors == [], (watch.outside, watch.errors)
        context.close()


def test_the_two_tables_are_one_evaluation(results):
    summary, samples = read_results(results)
    assert summary.filter(group="all", length=0, method="sfi", budget=64)["n"].item() == 24
    assert samples.filter(method="sfi", budget=64, scoring="answers").height == 24
