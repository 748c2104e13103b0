"""Figures of a trace: what they draw is what the analysis says."""

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image

from sfi_lab import Settings, whatif
from sfi_lab.figures import show
from sfi_lab.figures.attention_rows import _pooled, shown, two_sentences
from sfi_lab.figures.pareto import Point, front
from sfi_lab.figures.picture import SCREEN
from sfi_lab.figures.reselect import bounds, reselected
from sfi_lab.figures.style import rendered


@pytest.fixture(scope="module")
def trace(demo):
    return demo.traces[0]


def test_reselection_agrees_with_whatif(demo, trace):
    """Mean over sentences weighted by their steps is the what-if's mean over steps."""
    settings = trace.settings.with_(k=32)
    ours = reselected(demo, [trace], lambda s: s.with_(k=32), fast_only=False, error=False)
    other = whatif(trace, settings, output_error=False)
    decoded = trace.steps.filter(pl.col("route") != "prefill")
    counts = decoded.group_by("query_sentence").len().sort("query_sentence")["len"].to_numpy()
    assert ours.kind == other.kind == "exact"
    assert np.average(ours.kept, weights=counts) == pytest.approx(other.summary["kept"], abs=1e-5)
    assert np.average(ours.keys, weights=counts) == pytest.approx(other.summary["keys_read"], rel=1e-5)


def test_bounds_enclose_every_selection(demo, trace):
    alone, oracle = bounds(demo, [trace])
    for change in (
        lambda s: s,
        lambda s: s.with_(lam=1.0),
        lambda s: s.with_(lam=0.0, nms_strength=0.0, exclusivity=0.0),
    ):
        kept = reselected(demo, [trace], change, error=False).kept
        assert (alone < kept + 1e-6).all()
        assert (kept < oracle + 1e-6).all()


def test_front_holds_what_nothing_beats():
    points = [
        Point(read, kept, 0, 0, "exact") for read, kept in ((0.3, 0.9), (0.1, 0.8), (0.2, 0.7), (0.3, 0.85), (0.4, 0.9))
    ]
    assert [(p.read, p.kept) for p in front(points)] == [(0.1, 0.8), (0.3, 0.9)]


def test_map_rows(trace):
    stretch = two_sentences(trace, 36)
    assert len(stretch.labels) == len(stretch.indices) == len(stretch.lengths) <= 36
    assert (np.diff(stretch.lengths) == 1).all()
    sentences = trace.steps.filter(pl.col("route") != "prefill")["query_sentence"].to_numpy()[stretch.indices]
    assert stretch.ends == [i for i in range(len(sentences) - 1) if sentences[i] != sentences[i + 1]]
    assert _pooled(np.ones((2, 7), np.float32), 3).tolist() == [[3, 3, 1]] * 2, "sums, so that no mass is lost"


@pytest.mark.parametrize(
    ("text", "label"),
    [("\n", "↵"), ("  ", "␣"), ("$x", r"\$x"), ("数", "□"), ("a" * 40, "a" * 11 + "…"), (" the", "the")],
)
def test_labels_can_be_drawn(text, label):
    assert shown(text) == label


def test_maps_hold_all_the_mass(demo):
    found = show("maps", demo).found
    for layer in found.maps:
        assert layer.sum(1) == pytest.approx(np.ones(len(layer)), abs=1e-4), "dense weights add up to one"


def test_unclipped_lambda_is_the_replays(demo, trace):
    found = show("lambda_heads", demo).found
    layer = found.layers[1]
    expected = demo.replay(trace, layer).run(trace.settings.with_(lam_clip=1.0)).lam
    assert np.allclose(found.free[1], expected)
    assert found.free[1].max() > 0.25


def test_table6_rows_and_baseline(demo):
    table = show("table6", demo).found
    same = [row for row in table.rows if row[2] == "as recorded"]
    assert [row[0] for row in same] == ["0.02"], "the recorded clip is the baseline"
    assert [row[5] for row in table.rows][:3] == [None, "46.05", "46.10"]
    assert "another model" in table.caption
    assert table.latex().count(r"\\") == len(table.rows) + 1


def test_captions_state_n_and_intervals(demo):
    for name in ("ablation", "nms", "controls"):
        caption = show(name, demo).caption
        assert "95 %" in caption, name
        assert any(character.isdigit() for character in caption), name


def test_picture_for_a_notebook(demo):
    picture = show("lambda_heads", demo)
    content, about = picture._repr_png_()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert 300 < about["width"] < 900
    whole = np.asarray(Image.open(io.BytesIO(rendered(picture.figure, "png", SCREEN))).convert("RGB")).astype(int)
    small = Image.open(io.BytesIO(content))
    assert small.mode == "P", "a palette: a stored notebook is a third of the size"
    off = np.abs(np.asarray(small.convert("RGB")) - whole).max(-1)
    assert off.max() < 24 and off.mean() < 1, "and looks the same"
    assert repr(picture).startswith("lambda_heads (3.4 × 2.2 in): The λ")


def test_no_sparse_trace_no_figure(tiny_lab, prose, tmp_path):
    """A dense run has nothing to re-select: the figure says so instead of drawing something else."""
    from sfi_lab.figures import Material, Missing

    ids = tiny_lab.tokenizer(prose)["input_ids"][:80]
    result = tiny_lab.generate(
        ids, Settings.dense(), 4, record="support+qk", trace=tmp_path / "t", ignore_eos=True, progress=False
    )
    with pytest.raises(Missing, match="sparse run"):
        show("ablation", Material.gather([result.trace]))
