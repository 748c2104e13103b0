"""The picture beside the widget: every panel and the workbench carry one, made from the twin, once, and small."""

import base64
import io
import warnings

import matplotlib.image
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from nbconvert import HTMLExporter

import sfi_widgets
from sfi_lab import SfiError, Trace
from sfi_widgets import Controls, DecodeAgain, HeadNavigator, SelectorAnatomy, StabilityPanel, Workbench
from sfi_widgets.panel import Panel
from sfi_widgets.picture import png
from synthetic_trace import write_trace

PANELS = [c for c in vars(sfi_widgets).values() if isinstance(c, type) and issubclass(c, Panel)]
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return Trace.open(write_trace(tmp_path_factory.mktemp("bare") / "bare", qk=False, steps=40))


def bundle(widget):
    found = widget._repr_mimebundle_()
    return found[0] if isinstance(found, tuple) else found


def pixels(data):
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(data["image/png"])))


@pytest.mark.parametrize("panel", [*PANELS, Workbench], ids=lambda c: c.__name__)
def test_every_output_carries_widget_words_and_picture(trace, panel):
    shown = panel(trace) if panel is not sfi_widgets.Compare else panel(trace, trace.settings.with_(k=5))
    if panel is SelectorAnatomy:
        shown.state.cursor = 40
    data = bundle(shown)
    assert data[VIEW]["model_id"] == shown.model_id and data["text/plain"].startswith(panel.__name__)
    image = pixels(data)
    assert image.shape[0] * image.shape[1] > 400 * 40 and image[..., :3].std() > 0.02, "a blank picture"
    assert len(data["image/png"]) < 60_000


def test_picture_is_that_of_the_twin(trace):
    bench = Workbench(trace).set(k=6)
    for name in ("map", "heads", "run", "controls"):
        panel = getattr(bench, name)
        assert panel.to_png() == png(panel.to_figure()), name
    assert bench.to_png() == png(bench.to_figure())


def test_it_is_made_once_until_something_changes(trace, monkeypatch):
    bench = Workbench(trace)
    made = []
    for panel in (bench, bench.run, bench.heads):
        draw = type(panel).to_figure
        monkeypatch.setattr(type(panel), "to_figure", lambda self, draw=draw: made.append(self) or draw(self))
    first = [bundle(p)["image/png"] for p in (bench, bench.run, bench.heads)]
    assert [bundle(p)["image/png"] for p in (bench, bench.run, bench.heads)] == first and len(made) == 3
    bench.state.kv_head = 2
    assert bundle(bench)["image/png"] != first[0] and len(made) == 4
    bench.run.metric = "logprob"
    assert bundle(bench.run)["image/png"] != first[1]
    before = bundle(bench)["image/png"]
    bench.run.metric = "ms_total"
    assert bundle(bench)["image/png"] != before, "the workbench shows the run's line too"


def test_changed_settings_stand_out_in_the_controls(trace):
    controls = Controls(trace)
    texts = {t.get_text(): t for t in controls.to_figure().texts}
    assert texts["24"].get_weight() == "normal" and controls.code in texts
    controls.state.apply(k=7)
    assert {t.get_text(): t for t in controls.to_figure().texts}["7"].get_weight() == "bold"


@pytest.mark.parametrize("panel", [*PANELS, Workbench], ids=lambda c: c.__name__)
def test_a_recording_without_queries_warns_of_nothing(bare, panel):
    """A warning would land in the cell's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = panel(bare, bare) if panel is sfi_widgets.Compare else panel(bare)
        data = bundle(shown)
        assert ("image/png" in data) == (panel is not SelectorAnatomy), "the anatomy needs queries and keys"
        shown.state.kv_head, shown.state.brush = -1, (2, 9)
        bundle(shown)


def test_nothing_to_draw_is_no_picture_and_no_error(trace):
    anatomy = SelectorAnatomy(trace)
    anatomy.state.cursor = 0
    assert anatomy.to_png() == b"" and "image/png" not in bundle(anatomy)
    with pytest.raises(SfiError, match="no refresh yet"):
        anatomy.to_figure()


def test_a_picture_waits_for_no_thread(trace):
    panel = StabilityPanel(trace)
    panel.wait = lambda *_: pytest.fail("the cell would hang until the intervals have come")
    assert len(panel.to_png()) > 1000


def test_a_broken_picture_keeps_the_widget_and_warns(trace, monkeypatch):
    monkeypatch.setattr(HeadNavigator, "to_figure", lambda self: 1 / 0)
    with pytest.warns(UserWarning, match="HeadNavigator has no picture: ZeroDivisionError"):
        data = bundle(HeadNavigator(trace))
    assert VIEW in data and "image/png" not in data


def test_pictures_can_be_left_out(trace, monkeypatch):
    bench = Workbench(trace)
    bench.picture = False
    assert "image/png" not in bundle(bench)
    monkeypatch.setattr(Panel, "picture", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(bundle(DecodeAgain(trace))) == {VIEW, "text/plain"}


def test_nbconvert_shows_the_picture_of_a_saved_notebook(trace):
    """Saved without widget state, as the project's notebooks are: then viewers fall back."""
    notebook = nbformat.v4.new_notebook()
    output = nbformat.v4.new_output("execute_result", data=bundle(Workbench(trace)), execution_count=1)
    notebook.cells = [nbformat.v4.new_code_cell("bench", outputs=[output], execution_count=1)]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert "data:image/png;base64," in page and "widget-view+json" not in page


def test_palette_keeps_colours_apart():
    figure = Figure(figsize=(2, 1))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(np.arange(64).reshape(4, 16), cmap="viridis", aspect="auto")
    image = matplotlib.image.imread(io.BytesIO(png(figure)))
    np.testing.assert_allclose(image[2, 2, :3], [0.267, 0.005, 0.329], atol=0.03)
    np.testing.assert_allclose(image[-3, -3, :3], [0.993, 0.906, 0.144], atol=0.03)
