"""Methods: what the panel holds is the evaluation's, choices fit it, prompts come by their loss, bad input is one sentence."""

import itertools
import json
import re
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sfi_lab import SfiError
from sfi_lab.evaluate import SUMMARY
from sfi_lab.figures import style
from sfi_lab.figures.method_rows import looks
from sfi_lab.methods import METHODS
from sfi_widgets import MethodsPanel
from sfi_widgets.assets import STATIC
from sfi_widgets.methods_points import NUMBERS
from sfi_widgets.methods_twin import SERIES
from synthetic_results import BUDGETS, samples, write_results
from synthetic_results import METHODS as MADE


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("evaluation") / "methods")


@pytest.fixture(scope="session")
def summary(results):
    return pl.read_parquet(results / "summary.parquet")


@pytest.fixture
def panel(results):
    return MethodsPanel(results)


def test_what_the_browser_gets_is_the_summary(panel, summary):
    wire = panel.points
    at = np.frombuffer(wire["at"], np.int32).reshape(5, -1)
    numbers = dict(zip(NUMBERS, np.frombuffer(wire["numbers"], np.float32).reshape(len(NUMBERS), -1), strict=True))
    assert at.shape[1] == summary.height and wire["names"] == list(NUMBERS)
    for i, row in enumerate(summary.iter_rows(named=True)):
        method, group, length, budget, verdict = at[:, i].tolist()
        assert wire["methods"][method]["label"] == row["method"] and wire["groups"][group]["name"] == row["group"]
        assert (length, None if budget < 0 else budget) == (row["length"], row["budget"])
        assert wire["verdicts"][verdict] == (row["verdict"] or "")
        for name, of in (("n", "n"), ("score", "score"), ("kl", "kl"), ("kl_high", "kl_high"), ("read", "read_share"),
                         ("looked", "scored_share"), ("kept", "kept_share")):  # fmt: skip
            wanted = np.nan if row[of] is None else row[of]
            np.testing.assert_allclose(numbers[name][i], wanted, rtol=1e-6, err_msg=f"{name} of {row['method']}")


def test_bars_are_the_intervals_of_the_difference_and_perplexity_is_a_ratio(panel, summary):
    mine = panel.frame.filter(group="all", length=0, method="sfi", budget=64).row(0, named=True)
    row = summary.filter(group="all", length=0, method="sfi", budget=64).row(0, named=True)
    dense = row["score"] - row["difference"]
    assert (mine["score_low"], mine["score_high"]) == pytest.approx((dense + row["difference_low"], dense + row["difference_high"]))  # fmt: skip
    text = panel.frame.filter(group="perplexity:pydoc", length=0, method="sfi", budget=64).row(0, named=True)
    assert text["score"] is None
    # KL of prompt i is (1 - 0.5) (1 + i / 10) and the perplexity 1 + KL times dense's
    ratios = 1 + 0.5 * (1 + np.arange(6) / 10)
    assert text["perplexity"] == pytest.approx(np.exp(np.log(ratios).mean()))
    assert text["perplexity_low"] < text["perplexity"] < text["perplexity_high"]


def test_a_group_without_scores_is_shown_by_what_it_has(panel):
    assert (panel.group, panel.length, panel.quality) == ("all", 0, "score")
    panel.group = "perplexity:pydoc"
    assert panel.quality == "kl" and "KL to dense (nats) 0." in repr(panel)
    panel.quality = "perplexity"
    panel.group = "fact_qa"
    assert panel.quality == "score"


def test_a_length_that_another_group_lacks_is_left(results):
    frame = pl.read_parquet(results / "summary.parquet")
    panel = MethodsPanel(frame.filter((pl.col("group") != "fact_qa") | (pl.col("length") != 1024)))
    panel.length = 1024
    panel.group = "fact_qa"
    assert panel.length == 0


def test_methods_alone(panel):
    panel.only = ["oracle", "sfi"]
    assert panel.only == ["sfi", "oracle"], "in the legend's order"
    assert set(panel.shown()["method"]) == {"sfi", "oracle", "dense"}
    assert repr(panel).startswith(
        "MethodsPanel(2 methods beside dense at 64, 128; all kinds with answers, all lengths; 24 prompts; score "
    )
    panel.only = []
    assert set(panel.shown()["method"]) == {*MADE, "dense"}


def test_prompts_behind_a_point_come_by_their_loss(panel, results):
    panel.selected = ["sfi", 64]
    rows = pl.read_parquet(results / "samples.parquet").filter(pl.col("scoring") == "answers")
    dense = dict(rows.filter(method="dense").select("task", "score").iter_rows())
    mine = {r["task"]: r for r in rows.filter(method="sfi", budget=64).iter_rows(named=True)}
    found = panel.failing()
    assert sorted(found["task"]) == sorted(mine) and found.height == 24
    order = [(dense[t] - mine[t]["score"], mine[t]["kl"]) for t in found["task"]]
    assert order == sorted(order, reverse=True)
    losing = sum(dense[t] > mine[t]["score"] for t in mine)
    assert panel.worst["losing"] == losing == 8 and panel.worst["total"] == 24
    first = panel.worst["rows"][0]
    assert first[:4] == ["fact_qa-1024-4", 0.0, 1.0, pytest.approx(0.7)]
    assert first[5] == mine[first[0]]["text"][:80] and first[6].startswith(" <b>dense</b>")
    assert "SFI at 64: 8 prompts lose" in repr(panel)


def test_the_list_follows_group_length_and_quality(panel):
    panel.selected = ["snapkv", 128]
    panel.group, panel.length = "perplexity:pydoc", 512
    assert panel.worst["of"] == ["snapkv", 128, "perplexity:pydoc", 512, "kl"]
    kl = [row[3] for row in panel.worst["rows"]]
    assert (
        kl == sorted(kl, reverse=True)
        and len(kl) == 6
        and {row[0].split("-")[1] for row in panel.worst["rows"]} == {"512"}
    )
    panel.quality = "perplexity"
    ratios = [row[4] for row in panel.worst["rows"]]
    assert ratios == sorted(ratios, reverse=True) and ratios[0] == pytest.approx(1 + 0.6 * 1.5, abs=1e-4)
    panel.selected = []
    assert panel.worst == {}


def test_a_long_list_is_cut_and_small(summary):
    panel = MethodsPanel(summary, samples(n=60))
    panel.selected = ["snapkv", 64]
    assert len(panel.worst["rows"]) == 200 and panel.worst["total"] == 240 == panel.failing().height
    assert max(len(row[5]) for row in panel.worst["rows"]) == 80
    assert len(json.dumps(panel.worst)) < 60_000


def test_without_samples_the_points_are_there_and_the_list_says_why(summary):
    panel = MethodsPanel({"summary": summary})
    panel.selected = ["sfi", 64]
    assert panel.worst["rows"] == [] and panel.worst["note"] == "the evaluation came without samples"
    with pytest.raises(SfiError, match="without samples"):
        panel.failing()


def test_frames_and_folders_are_the_same(results, summary):
    rows = pl.read_parquet(results / "samples.parquet")
    shown = {repr(MethodsPanel(*given)) for given in ((results,), (str(results),), (summary, rows), ({"summary": summary, "samples": rows},))}  # fmt: skip
    assert len(shown) == 1
    assert repr(MethodsPanel(results, quality="kl")) not in shown
    assert repr(MethodsPanel(summary.with_columns(pl.col("score") * 0.9))).split("sha ")[1] not in shown.pop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quality": "speed"}, r"quality = 'speed' is not there; allowed: score, kl, perplexity"),
        ({"group": "chess"}, r"group = 'chess' is not there; allowed: all, single_needle, fact_qa, perplexity:pydoc"),
        ({"length": 7}, r"length = 7 is not there; allowed: 0, 512, 1024"),
        ({"only": ["sfi", "magic"]}, r"method = 'magic' is not there; allowed: dense, sfi, snapkv, snapkv:window=16, oracle"),
        ({"selected": ["sfi", 65]}, r"selected = \['sfi', 65\] is not there; allowed: \[method, budget\] of .*sfi.* and 64, 128"),
        ({"selected": ["sfi"]}, r"selected = \['sfi'\] is not there"),
    ],
)  # fmt: skip
def test_choices_that_are_not_there_are_refused(panel, results, change, message):
    ((name, value),) = change.items()
    before = getattr(panel, name)
    with pytest.raises(SfiError, match=message):
        setattr(panel, name, value)
    assert getattr(panel, name) == before
    with pytest.raises(SfiError, match=message):
        MethodsPanel(results, **change)


def test_results_that_are_none_are_refused_in_a_sentence(tmp_path, summary):
    with pytest.raises(SfiError, match=r"has no summary.parquet; make it with: sfi-lab evaluate .* -o .*empty$"):
        MethodsPanel(tmp_path / "empty")
    with pytest.raises(SfiError, match="the summary lacks the columns read_share, kl_low; sfi-lab evaluate"):
        MethodsPanel(summary.drop("kl_low", "read_share"))
    with pytest.raises(SfiError, match="the samples lack the columns text"):
        MethodsPanel(summary, samples().drop("text"))
    with pytest.raises(SfiError, match="results hold samples; needed: summary"):
        MethodsPanel({"samples": samples()})
    with pytest.raises(SfiError, match="results = int is not allowed; allowed: a folder, or frames of polars"):
        MethodsPanel(3)
    with pytest.raises(SfiError, match="the samples = list is not allowed"):
        MethodsPanel(summary, [1])
    with pytest.raises(SfiError, match="the summary has no rows"):
        MethodsPanel(pl.DataFrame(schema=SUMMARY))
    with pytest.raises(SfiError, match="no method at a budget beside dense"):
        MethodsPanel(summary.filter(method="dense"))


def test_picture_and_words_beside_the_widget(panel):
    data = panel._repr_mimebundle_()
    data = data[0] if isinstance(data, tuple) else data
    assert data["text/plain"] == repr(panel) and 2_000 < len(panel.to_png()) < 40_000
    before = panel.to_png()
    for change in (
        {"quality": "kl"},
        {"only": ["sfi"]},
        {"selected": ["sfi", 64]},
        {"group": "fact_qa"},
        {"length": 512},
    ):
        ((name, value),) = change.items()
        setattr(panel, name, value)
        assert panel.to_png() != before, f"{name} is not in the picture"
        before = panel.to_png()


def test_the_figure_draws_the_points(panel):
    (axes,) = panel.to_figure().axes
    rows = panel.shown().filter(method="oracle")
    (line,) = [line for line in axes.lines if line.get_marker() == "*"]
    np.testing.assert_allclose(line.get_xdata(), rows["read"])
    np.testing.assert_allclose(line.get_ydata(), rows["score"])
    ticks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(ticks, rows["read"] + rows["looked"], err_msg="keys looked at only to choose")
    dense = panel.shown().filter(method="dense")["score"].item()
    assert any(np.allclose(line.get_ydata(), dense) and line.get_linestyle() == "--" for line in axes.lines)
    panel.group = "perplexity:pydoc"
    panel.quality = "score"
    with pytest.raises(SfiError, match="score was not measured for perplexity:pydoc"):
        panel.to_figure()
    assert panel.to_png() == b""


def test_colours_and_markers_are_the_figures(panel):
    assert SERIES == style.SERIES
    text = (STATIC / "methods_panel.mjs").read_text(encoding="utf-8")
    light, dark = re.findall(r"(?:light|dark): \[([^\]]+)\]", text)
    assert tuple(re.findall(r"#\w{6}", light)) == style.SERIES
    found_dark = re.findall(r"#\w{6}", dark)
    assert len(found_dark) == len(style.SERIES)
    seen = runpy.run_path(str(Path(__file__).parents[1] / "figures" / "test_figures_style.py"))
    for kind, (a, b) in itertools.product(seen["BLIND"], itertools.combinations(found_dark, 2)):
        one, two = (seen["lab"](np.array(seen["BLIND"][kind]) @ seen["linear"](c)) for c in (a, b))
        assert np.linalg.norm(one - two) > 14, f"on dark pages {a} and {b} look alike to a {kind} reader"
    outlines = set(re.findall(r"(?:^|[ {])'?([a-zA-Z^<>*])'?: 'M", text))
    found = looks([*METHODS, "mine", "yours"])
    assert {look.marker for name, look in found.items() if name != "dense"} <= outlines
    for method in panel.points["methods"][1:]:
        assert style.SERIES[method["series"]] == found[method["label"].partition(":")[0]].color


def test_joined_module_imports_nothing_and_has_one_export(panel):
    text = str(panel._esm)
    assert not re.search(r"^import ", text, re.MULTILINE)
    assert re.findall(r"^export .*", text, re.MULTILINE) == ["export default { render };"]
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)), f"two parts share a name: {sorted(n for n in names if names.count(n) > 1)}"


def test_it_becomes_one_html_file(panel, tmp_path):
    text = panel.to_html(tmp_path / "methods.html").read_text(encoding="utf-8")
    assert panel.model_id in text and len(text) < 250_000
    assert len(BUDGETS) == 2 and "MethodsPanel" in text


def test_the_figure_draws_sfi_over_its_variants(summary):
    twin = summary.filter(pl.col("method") == "sfi").with_columns(method=pl.lit("sfi_rectified"))
    (axes,) = MethodsPanel(pl.concat([summary, twin])).to_figure().axes
    lines = {line.get_marker(): line for line in axes.lines if len(line.get_xdata()) > 1}
    sfi, variant = lines["o"], lines["D"]
    assert sfi.get_xdata().tolist() == variant.get_xdata().tolist()
    order = sorted(axes.lines, key=lambda line: line.get_zorder())  # as matplotlib paints them
    assert order.index(sfi) > order.index(variant) and sfi.get_markersize() < variant.get_markersize()


def test_variants_are_counted_beside_methods(panel):
    assert repr(panel).startswith("MethodsPanel(3 methods beside dense (4 with variants) at 64, 128; ")
