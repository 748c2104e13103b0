"""Each number carries its kind: exact, proxy or re-run, in every panel's statement or beside it."""

import pytest

pytestmark = pytest.mark.browser

PANELS = ("heads", "run", "map", "selection", "compare", "anatomy", "stability")


@pytest.mark.parametrize(("change", "kind"), [({"lam": 0.4}, "exact"), ({"t_max": 5}, "proxy")])
def test_statements_say_how_sure_they_are(panels_page, change, kind):
    def prepare(bench):
        bench.compare.live = bench.anatomy.live = bench.stability.live = True
        bench.state.cursor = 30
        bench.set(**change)
        assert bench.stability.wait(60) and bench.heads.wait(60)

    page, _ = panels_page(*PANELS, "controls", "timing", prepare=prepare)
    page.wait_for_timeout(300)
    said = {name: page.inner_text(f".sfi-{name} .sfi-statement") for name in PANELS}
    for name in ("run", "map", "heads", "stability"):  # the recording's own numbers
        assert said[name].endswith("(exact)"), f"{name}: {said[name]}"
    for name in ("selection", "anatomy"):  # under the current settings
        assert said[name].endswith(f"({kind})"), f"{name}: {said[name]}"
    assert page.inner_text(".sfi-controls .sfi-kind") == kind
    assert page.inner_text(".sfi-heads .sfi-summary .sfi-kind") == kind
    assert page.get_attribute(".sfi-compare [data-name=kept] td:nth-child(3) .sfi-kind", "data-kind") == kind
    assert "(recorded, with the clock's own cost)" in page.inner_text(".sfi-timing .sfi-statement")
    page.select_option(".sfi-run select", "kept")
    page.evaluate("run.set('metric', 'kept')")
    page.wait_for_function(f"document.querySelector('.sfi-run .sfi-statement').textContent.endsWith('({kind})')")
