"""The needle map: cells, the budget that is shown by itself, pinned depths, titles that stay within their maps."""

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from method_samples import CHARACTER, write
from sfi_lab.figures import Material, needle_map, show


def test_needle_cells_are_means_of_their_prompts(tmp_path):
    """Two prompts in one cell, one in another, the rest of the map not measured; pinned depths count with the others."""
    row = {"length": 512, "method": "sfi", "budget": 64, "read_share": 0.1, "kl": 0.0}
    rows = [row | {"task": "a", "kind": "single_needle", "depth": 0.19, "score": 1.0}, row | {"task": "b", "kind": "single_needle@0.1", "depth": 0.1, "score": 0.0},
            row | {"task": "c", "kind": "single_needle", "depth": 1.0, "score": 1.0, "length": 1024}, row | {"task": "d", "kind": "multi_key", "depth": 0.5, "score": 0.0}]  # fmt: skip
    dense = [r | {"method": "dense", "budget": None, "score": 1.0} for r in rows]
    pl.DataFrame([*rows, *dense], infer_schema_length=None).write_parquet(tmp_path / "samples.parquet")
    found = needle_map.data(Material.gather([], [tmp_path]))
    sfi = found.maps[1]
    assert [m.name for m in found.maps] == ["Dense", "SFI"]
    assert found.lengths == [512, 1024]
    assert sfi.n.tolist() == [[2, 0], [0, 0], [0, 0], [0, 0], [0, 1]]
    assert sfi.score[0, 0] == 0.5
    assert sfi.score[4, 1] == 1.0
    assert np.isnan(sfi.score[2]).all(), "another kind of task is no needle"
    assert found.maps[0].score[0, 0] == 1.0


def needles(scores):
    """Samples of a needle task: {budget: {method: scores}}, dense right throughout."""
    row = {"length": 512, "read_share": 0.1, "kl": 0.0, "task": "a", "kind": "single_needle", "depth": 0.5}
    made = [
        row | {"task": f"t{i}", "method": method, "budget": budget, "score": float(score)}
        for budget, methods in scores.items()
        for method, list_of in methods.items()
        for i, score in enumerate(list_of)
    ]
    return pl.DataFrame([*made, row | {"method": "dense", "budget": None, "score": 1.0}], infer_schema_length=None)


def test_needle_budget_is_the_one_that_sets_methods_apart():
    failing, apart = (
        {"sfi": [0, 0], "quest": [0, 0], "knorm": [0, 1]},
        {"sfi": [0, 1], "quest": [1, 1], "knorm": [0, 0]},
    )
    assert needle_map.telling(needles({64: failing, 128: apart, 256: {name: [1, 1] for name in apart}})) == 128
    few = {"sfi": [0, 0], "quest": [1, 1]}
    assert needle_map.telling(needles({64: failing, 128: few})) == 64, "more methods before more variance"
    assert needle_map.telling(needles({128: apart, 64: apart})) == 64, "the smaller of equal ones"


def test_needle_depths_may_all_be_pinned(tmp_path):
    """`--tasks single_needle@0.1,…`: a kind a depth, each in the row of its place; a cell without prompts isn't one with none found."""
    frame = needles({64: {"sfi": [0, 0, 1, 1], "quest": [1, 1, 1, 1]}})
    depths = [0.1, 0.3, 0.7, 0.9]
    pinned = pl.concat(
        frame.filter((pl.col("task") == f"t{i}") | (pl.col("method") == "dense")).with_columns(
            kind=pl.lit(f"single_needle@{depth}"), depth=pl.lit(depth)
        )
        for i, depth in enumerate(depths)
    )
    pinned.write_parquet(tmp_path / "samples.parquet")
    picture = show("needle_map", [], tmp_path)
    sfi = next(one for one in picture.found.maps if one.name == "SFI")
    assert sfi.n[:, 0].tolist() == [1, 1, 0, 1, 1]
    assert sfi.score[:, 0].tolist() == pytest.approx([0, 0, np.nan, 1, 1], nan_ok=True)
    at = next(at for at in picture.figure.axes if at.get_title(loc="left") == "SFI")
    assert [patch.get_hatch() for patch in at.patches] == ["////"] and at.patches[0].get_xy() == (-0.5, 1.5)


def test_needle_titles_stay_within_their_maps(tmp_path):
    """One long name at a row's end: it must not run into the colour bar, nor out of the picture."""
    methods = [*CHARACTER, "quest:dense_layers=0"]
    write(tmp_path, n=2, methods=tuple(methods))
    figure = show("needle_map", [], tmp_path).figure
    figure.canvas.draw()
    maps = [at for at in figure.axes if at.images]
    bar = next(at for at in figure.axes if not at.images and at.get_ylabel())
    edge = bar.get_window_extent().x0
    assert len(maps) == len(methods) + 1
    titles = [at.get_title(loc="left") for at in maps]
    boxes = [
        next(text for text in at.findobj(Text) if text.get_text() == title).get_window_extent()
        for at, title in zip(maps, titles, strict=True)
    ]
    for i, (title, box) in enumerate(zip(titles, boxes, strict=True)):
        assert box.x1 < edge, f"{title!r} runs into the colour bar"
        under = [titles[j] for j, other in enumerate(boxes) if j != i and other.overlaps(box)]
        assert not under, f"{title!r} runs into {under}"
    assert "Quest\n(dense_layers = 0)" in titles
