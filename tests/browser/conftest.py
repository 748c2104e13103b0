"""Browser tests: Debian's Chromium, a trace without a model, and nothing that leaves this machine."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "widgets")]

from ui_browser import HOW_TO_GET_CHROMIUM, Watch, browser, chromium_path

from sfi_lab import Trace
from sfi_widgets import Workbench
from sfi_widgets.export import to_html
from synthetic_trace import write_trace


def pytest_collection_modifyitems(items):
    if chromium_path() is None:
        if os.environ.get("SFI_REQUIRE_BROWSER"):  # set by .ci/run: there a missing browser must not pass in silence
            raise pytest.UsageError(HOW_TO_GET_CHROMIUM)
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason=HOW_TO_GET_CHROMIUM))


@pytest.fixture(scope="session")
def chromium():
    with browser() as instance:
        yield instance


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    return Trace.open(write_trace(tmp_path_factory.mktemp("trace") / "small"))


@pytest.fixture
def exported_page(chromium):
    """Opens a page written by `to_html`: f(path, width=…, dark=…) -> page. Outside requests and errors fail the test."""
    contexts = []

    def open_page(path, width=900, dark=False):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        page, watch = context.new_page(), Watch()
        watch.over(page, path.as_uri())
        contexts.append((context, watch))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=20_000)
        page.wait_for_timeout(150)
        return page

    yield open_page
    for context, watch in contexts:
        context.close()
        assert watch.outside == [], f"requests that leave the page: {watch.outside}"
        assert watch.errors == [], f"errors of the page: {watch.errors}"


@pytest.fixture
def panels_page(exported_page, trace, tmp_path):
    """Opens panels of a new workbench under fake models: f(names, width=…, dark=…) -> (page, workbench)."""

    def open_panels(*names, width=900, dark=False, prepare=None, **given):
        bench = Workbench(trace, **given)
        if prepare is not None:
            prepare(bench)
        bench.session.rank_all()
        path = to_html([getattr(bench, name) for name in names], tmp_path / "page.html", "test")
        page = exported_page(path, width, dark)
        page.evaluate(f"window.hub = window.sfi.models['{bench.session.hub.model_id}']")
        for name in names:
            page.evaluate(f"window.{name} = window.sfi.models['{getattr(bench, name).model_id}']")
        return page, bench

    return open_panels
