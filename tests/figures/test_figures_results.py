"""Figures of benchmark and study tables: numbers known beforehand must come out."""

import numpy as np
import polars as pl
import pytest

from sfi_lab.figures import Material, Missing, make, show
from sfi_lab.figures.bench_rows import decode_rows, one_interval, pairs
from sfi_lab.figures.pipeline import hidden_share


def test_decode_rows_take_whole_runs_at_the_usual_interval(results):
    rows = one_interval(decode_rows(Material.gather([], [results])))
    assert set(rows["config"]) == {"one", "two"}, "a study's work in progress is not a result"
    assert set(rows["kind"]) == {"dense", "sdpa", "sfi"}, "arms of single kinds of steps are left out"
    assert set(rows["refresh"].drop_nulls()) == {32}
    dense = rows.filter((pl.col("kind") == "dense") & (pl.col("config") == "one") & (pl.col("context") == 32768)).row(
        0, named=True
    )
    assert dense["tokens"] == 200
    assert dense["bound"] == pytest.approx(250), "batch over the bound's milliseconds"


def test_gain_is_a_ratio_of_the_same_runtime(results):
    found = pairs(one_interval(decode_rows(Material.gather([], [results]))))
    assert found.filter(pl.col("config") == "two")["gain"].to_list() == pytest.approx([2, 4, 8])


def test_gain_joins_only_points_of_one_shape_and_batch(results):
    """A mean over other shapes and batches at each context would have a slope that says nothing."""
    file = results / "h200" / "decode.parquet"
    rows = pl.read_parquet(file)
    long = (pl.col("config") == "two") & (pl.col("context") == rows["context"].max())
    rows.with_columns(batch=pl.when(long).then(3).otherwise("batch").cast(rows["batch"].dtype)).write_parquet(file)
    picture = show("gain", [], results)
    pairs = {batch: part for (batch,), part in picture.found.pairs.filter(config="two").group_by("batch")}
    assert len(pairs) == 2
    at = picture.figure.axes[0]
    lines = [line for line in at.lines if line.get_marker() == "s"]  # of the second shape
    assert sorted(line.get_xdata().tolist() for line in lines) == sorted(
        p["context"].sort().to_list() for p in pairs.values()
    )
    labels = [text.get_text() for text in at.get_legend().get_texts()]
    assert labels == ["one", "two", "published (B200)"]


def test_longest_interval_where_the_usual_one_is_missing(results):
    file = results / "h200" / "decode.parquet"
    pl.read_parquet(file).filter((pl.col("refresh") != 32) | pl.col("refresh").is_null()).write_parquet(file)
    picture = show("throughput", [], results)
    assert picture.found.refresh == "64"
    assert "every 64 steps" in picture.caption


def test_throughput_and_gain_draw(results):
    picture = show("throughput", [], results)
    assert [config for config, _ in picture.found.groups] == ["one", "two"]
    assert len(picture.figure.axes) == 2
    assert "some GPU" in picture.caption
    assert "not like for like" in show("gain", [], results).caption


def test_table1_beside_published(results):
    table = show("table1", [], results).found
    rows = {row[0]: row for row in table.rows}
    assert rows["12.5%"][2:] == ("8.00×", "8.0×", "7.15×")
    assert rows["30.0%"][4] is None, "a share that the paper doesn't print has no published figure"
    assert r"12.5\%" in table.latex()
    assert "another device" in table.caption


def test_hidden_share_of_the_pipeline(results):
    picture = show("pipeline", [], results)
    # the second stream works 10-16 and 22-30, the last attention ends at 24: eight of fourteen
    (step,) = picture.found
    assert step.hidden == pytest.approx(8 / 14, rel=1e-4)
    assert step.length == pytest.approx(32)
    assert step.rows.height == 4, "the row of the whole step is no bar"
    alone = pl.DataFrame({"stream": ["main"], "stage": ["attention"], "start": [0.0], "end": [5.0]})
    assert np.isnan(hidden_share(alone)), "with one stream nothing can be hidden"


def test_overlapped_timeline_is_preferred(results):
    file = results / "h200" / "timeline.parquet"
    pl.read_parquet(file).with_columns(stream=pl.lit("main")).write_parquet(
        results / "h200" / "a_first_without_overlap.parquet"
    )
    assert [step.name for step in show("pipeline", [], results).found] == ["timeline", "a_first_without_overlap"]


def test_steps_of_one_table_are_told_apart(results):
    file = results / "h200" / "timeline.parquet"
    rows = pl.read_parquet(file)
    longer = rows.with_columns(pl.col("start_ms", "end_ms") * 2, context=pl.lit(131072))
    pl.concat([rows.with_columns(context=pl.lit(8192)), longer]).with_columns(
        config=pl.lit("one"), batch=pl.lit(4)
    ).write_parquet(file)
    found = show("pipeline", [], results).found
    assert [(step.name, round(step.length)) for step in found] == [("one, batch 4, 128K", 64), ("one, batch 4, 8K", 32)]


def test_controls_from_a_study(results):
    found = show("controls", [], results).found
    assert [row.label for row in found.ratio] == ["fixed period", "query drift", "next-sentence query"], (
        "the reference itself is no row"
    )
    assert found.ratio[0].value.value == pytest.approx(np.log10(1.02))
    assert found.gain[0].value.value == pytest.approx(100 * 0.01 * -0.02), "points of a hundred"
    ablation = show("ablation", [], results).found
    assert [row.label for row in ablation.ratio] == ["λ = 0", "pinned window", "released preset"]
    assert [row.marked for row in ablation.ratio] == [False, False, True]


def test_proxy_from_a_study(results):
    picture = show("proxy", [], results)
    assert picture.found.rows.height == 12, "arms without a proxy are left out"
    assert picture.found.rank_kept == "ρ = 0.90 [0.80, 0.95]"
    assert picture.found.rank_error == "ρ = 0.70"


def test_missing_names_the_command(results, tmp_path):
    (results / "h200" / "decode.parquet").unlink()
    report = make(Material.gather([], [results]), tmp_path / "out", ["throughput", "table1", "maps"], ["svg"])
    assert [m.name for m in report.made] == ["table1"]
    commands = {lacks.name: lacks.command for lacks in report.missing}
    assert commands["throughput"].startswith("sfi-lab bench decode")
    assert commands["maps"].startswith("sfi-lab generate")
    with pytest.raises(Missing, match="this makes it: sfi-lab study controls"):
        show("proxy", [], _without(results, "proxy", "arms"))


def _without(folder, *tables):
    for name in tables:
        (folder / "controls" / f"{name}.parquet").unlink()
    return folder
