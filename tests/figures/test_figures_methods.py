"""Figures and table of an evaluation: numbers known beforehand come out, gaps are said, methods are told apart."""

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from method_samples import BUDGETS, CHARACTER, samples, summary, write
from sfi_lab.analysis.statistics import paired_difference
from sfi_lab.errors import SfiError
from sfi_lab.figures import Material, Missing, make, needle_map, published, show, style
from sfi_lab.figures.method_rows import FAMILIES, family, looks, ordered, title, two_lines
from sfi_lab.methods import METHODS


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A results folder with one evaluation: every method, three budgets, three kinds with answers and one text."""
    root = tmp_path_factory.mktemp("evaluation") / "results"
    write(root / "methods", n=4)
    return root


@pytest.fixture(scope="module")
def pareto(evaluated):
    return show("methods_pareto", [], evaluated)


def changed(folder, out, **frames):
    """A copy of the evaluation with samples or summary changed by a function; None leaves a table out."""
    (out / "methods").mkdir(parents=True)
    for name in ("samples", "summary"):
        frame = pl.read_parquet(folder / "methods" / f"{name}.parquet")
        change = frames.get(name, lambda f: f)
        if change is not None:
            change(frame).write_parquet(out / "methods" / f"{name}.parquet")
    return out


def lines_of(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line


def test_every_method_has_a_look_of_its_own():
    found = looks(list(METHODS))
    pairs = [(look.color, look.marker) for look in found.values()]
    assert len(set(pairs)) == len(METHODS), "colour and marker together name a method"
    for name, members in FAMILIES.items():
        colors = [found[m].color for m in members]
        assert len(set(colors)) == len(colors), f"{name}: one panel, one colour a method"
        assert set(colors) <= set(style.SERIES), "colours that are tested to stay apart"
    assert {m for members in FAMILIES.values() for m in members} <= set(METHODS), (
        "no family holds a method that is gone"
    )
    assert looks(["quest", "sfi"])["sfi"] == found["sfi"], "a look doesn't depend on what else was run"


def test_variants_and_unknown_methods_are_named():
    found = looks(["snapkv", "snapkv:window=16:pool=7", "mine", "sfi"])
    assert found["snapkv:window=16:pool=7"].name == "SnapKV (window = 16, pool = 7)"
    plain, variant = found["snapkv"], found["snapkv:window=16:pool=7"]
    assert (plain.color, plain.marker) == (variant.color, variant.marker)
    assert plain.dashes != variant.dashes
    assert family("mine") == "Others"
    assert (found["mine"].color, found["mine"].marker) != (found["sfi"].color, found["sfi"].marker)
    assert ordered(["mine", "quest", "snapkv", "dense", "sfi", "quest"]) == ["dense", "sfi", "snapkv", "quest", "mine"]
    assert title("dense") == "Dense"
    assert two_lines("Chosen anew at every step", 20) == "Chosen anew\nat every step"
    assert two_lines("SFI", 20, "\n ") == "SFI\n "


def test_pareto_draws_the_summary(evaluated, pareto):
    found, axes = pareto.found, np.array(pareto.figure.axes).reshape(2, -1)
    assert list(found.families) == list(FAMILIES)
    rows = pl.read_parquet(evaluated / "methods" / "summary.parquet").filter(group="all", length=0)
    for column, methods in enumerate(found.families.values()):
        for method in methods:
            mine = rows.filter(method=method).sort("read_share")
            for row, what in enumerate(("score", "kl")):
                line = lines_of(axes[row, column], title(method))
                assert line.get_xdata() == pytest.approx(mine["read_share"].to_numpy()), method
                assert line.get_ydata() == pytest.approx(mine[what].to_numpy()), (method, what)
    scores = axes[0, 0]
    dense = rows.filter(method="dense").row(0, named=True)
    assert dense["score"] in [line.get_ydata()[0] for line in scores.lines if list(line.get_xdata()) == [0, 1]], (
        "dense's line"
    )
    assert f"score {dense['score']:.3f}" in pareto.caption
    assert f"{dense['n']} prompts" in pareto.caption


def test_pareto_bars_are_paired(pareto):
    """A bar that meets the dashed line is an interval of the difference that holds 0."""
    axes = np.array(pareto.figure.axes).reshape(2, -1)[0]
    dense = pareto.found.dense["score"]
    for column, methods in enumerate(pareto.found.families.values()):
        for method, bars in zip(methods, axes[column].collections, strict=True):
            mine = pareto.found.rows.filter(pl.col("method") == method).sort("read_share")
            for (low, high), bar in zip(
                mine.select("difference_low", "difference_high").iter_rows(), bars.get_segments(), strict=True
            ):
                assert bar[:, 1] == pytest.approx([dense + low, dense + high]), method


def test_pareto_says_what_is_only_looked_at(pareto):
    axes = np.array(pareto.figure.axes).reshape(2, -1)
    hollow = {
        line.get_label(): to_hex(line.get_markerfacecolor()) == "#ffffff"
        for at in axes[0]
        for line in at.lines
        if line.get_marker() not in ("None", "|")
    }
    assert {name for name, is_hollow in hollow.items() if is_hollow} == {"Quest", "Oracle Top-K"}
    ticks = sorted(line.get_xdata()[0] for line in axes[0, -1].lines if line.get_marker() == "|")
    assert len(ticks) == 2 * len(BUDGETS)
    assert ticks[-1] > 1, "an oracle looks at everything and reads some of it again"


def test_pareto_without_answers_has_the_distances_alone(evaluated, tmp_path):
    texts = lambda f: f.filter(pl.col("group") == "perplexity:pydoc")  # noqa: E731
    picture = show("methods_pareto", [], changed(evaluated, tmp_path, summary=texts))
    assert picture.found.group == "perplexity:pydoc"
    assert len(picture.figure.axes) == len(FAMILIES)
    assert "score" not in picture.caption


def test_pareto_caption_tells_what_is_drawn(evaluated, tmp_path, pareto):
    assert "The grey line in the other panels is SFI. Hollow:" in pareto.caption
    assert "drawn there" not in pareto.caption
    kl = pl.when(pl.col("method") == "snapkv").then(1e-9).otherwise(pl.col("kl")).alias("kl")
    some = lambda f: f.filter(pl.col("method").is_in(["dense", "snapkv", "tova"])).with_columns(kl)  # noqa: E731
    picture = show("methods_pareto", [], changed(evaluated, tmp_path, summary=some))
    assert "grey" not in picture.caption
    assert "Hollow" not in picture.caption
    assert "those below 1e-05 drawn there" in picture.caption
    line = next(line for at in picture.figure.axes[2:] for line in at.lines if line.get_label() == "SnapKV")
    assert set(line.get_ydata()) == {1e-5}, "a KL of nothing still has a place on a logarithmic axis"


def test_sfi_is_drawn_over_its_variants(pareto):
    for at in pareto.figure.axes:
        markers = {line.get_label(): line for line in at.lines if line.get_marker() in ("o", "s", "D")}
        if {"SFI", "SFI, pinned window", "SFI, rectified"} <= set(markers):
            sfi = markers.pop("SFI")
            assert all(sfi.get_zorder() > line.get_zorder() for line in markers.values())
            assert all(sfi.get_markersize() < line.get_markersize() for line in markers.values()), "both can be seen"
            return
    raise AssertionError("no panel has the three")


def test_one_kind_is_its_own_group(evaluated, tmp_path):
    one = lambda f: f.filter(pl.col("group").is_in(["fact_qa", "perplexity:pydoc"]))  # noqa: E731
    folder = changed(evaluated, tmp_path, summary=one)
    assert show("methods_pareto", [], folder).found.group == "fact_qa"
    assert show("table4", [], folder).found.head[3:-1] == ("fact qa", "perplexity:\npydoc\nKL")


def test_needle_map_draws_numbers_and_gaps(evaluated, tmp_path):
    few = lambda f: f.filter(~((pl.col("length") == 512) & (pl.col("depth") > 0.5)))  # noqa: E731
    picture = show("needle_map", [], changed(evaluated, tmp_path, samples=few))
    maps = [at for at in picture.figure.axes if at.images]
    assert [m.name for m in picture.found.maps] == [title(m) for m in ordered(["dense", *CHARACTER])]
    assert len(maps) == len(picture.found.maps)
    for one, at in zip(picture.found.maps, maps, strict=True):
        written = sorted(int(t.get_text()) for t in at.texts)
        assert written == sorted(one.n[one.n > 0].tolist()), one.name
        assert len(at.patches) == (one.n == 0).sum() > 0, "a hatched cell where nothing was measured"
        assert at.images[0].get_clim() == (0, 1), "one scale of colours"
    assert any("not measured" in t.get_text() for t in picture.figure.findobj(Text))
    sizes = {64, 128, 256} - {picture.found.budget}
    assert f"budget of {picture.found.budget} positions" in picture.caption
    assert f"also run, not drawn: {', '.join(map(str, sorted(sizes)))}" in picture.caption


def test_needle_budget_can_be_asked_for(evaluated):
    material = Material.gather([], [evaluated])
    assert needle_map.data(material.view(), 256).budget == 256
    with pytest.raises(Missing, match=r"not run at a budget of 100 \(but at 64, 128, 256\)"):
        needle_map.data(material.view(), 100)


def test_table4_cells(evaluated):
    table = show("table4", [], evaluated).found
    assert table.head[:4] == ("method", "budget", "keys read", "all kinds")
    own = [row for row in table.rows if row and not row[0].endswith("published")]
    assert len(own) == 1 + len(CHARACTER) * len(BUDGETS)
    rows = pl.read_parquet(evaluated / "methods" / "summary.parquet").filter(length=0)
    for method, budget in (("knorm", 64), ("oracle", 256)):
        whole = rows.filter(group="all", method=method, budget=budget).row(0, named=True)
        (cells,) = [row for row in own if row[:2] == (title(method), str(budget))]
        numbers = " ".join(f"{100 * whole[n]:+.1f}" for n in ("difference", "difference_low", "difference_high"))
        assert cells[3].replace("[", "").replace("]", "").replace(",", "").replace("−", "-") == (
            f"{100 * whole['score']:.1f} {whole['verdict']}\n{numbers}"
        )
        assert cells[-1] is None, "no published number in a row of ours"
    assert {row[3].partition("\n")[0].partition(", ")[2] for row in own[1:]} >= {"worse", "no difference found"}
    assert not any("no difference" in (cell or "") for row in own for cell in row[4:]), (
        "by kind the word stands for a finding"
    )


def test_table4_published_rows_stand_apart(evaluated):
    table = show("table4", [], evaluated).found
    printed = {row[0]: row for row in table.rows if row and row[0].endswith("published")}
    assert len(printed) == len(published.LONGBENCH_V2)
    assert printed["SFI, published"][2] == "15-20%"
    assert printed["SFI, published"][-1] == "34.80"
    assert all(row[3:-1] == (None,) * (len(table.head) - 4) for row in printed.values())
    assert "another model, other tasks" in table.caption


def test_table4_says_where_prompts_are_too_few(evaluated, tmp_path):
    assert "too few" not in show("table4", [], evaluated).found.caption
    n = pl.when(pl.col("group") == "fact_qa").then(5).otherwise(pl.col("n")).alias("n")
    few = show("table4", [], changed(evaluated, tmp_path, summary=lambda f: f.with_columns(n))).found
    assert "Of fact qa there are too few prompts" in few.caption
    assert paired_difference([0.0] * 5, [1.0] * 5).p > 0.05 > paired_difference([0.0] * 6, [1.0] * 6).p, (
        "six are enough"
    )


def test_table4_as_text(evaluated):
    table = show("table4", [], evaluated).found
    latex, markdown = table.latex(), table.markdown()
    assert latex.count(r"\midrule") == 1 + len(BUDGETS) + 1, (
        "a rule below the head, before each budget and before the published rows"
    )
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}")
    assert r"\resizebox{\textwidth}" in latex
    assert "<br>" not in markdown
    bars = {line.count("|") for line in markdown.splitlines() if line.startswith("|")}
    assert bars == {len(table.head) + 1}, "every line has every column"
    assert "perplexity: pydoc; KL" in markdown


def test_answers_of_one_token_read_no_keys(evaluated, tmp_path):
    """The prompt's own forward answers: there is a score and nothing that a method did."""
    none = pl.lit(None, pl.Float64)
    folder = changed(evaluated, tmp_path, summary=lambda f: f.with_columns(read_share=none, scored_share=none, kl=none))
    assert show("table4", [], folder).found.rows[0][:3] == ("Dense", None, None)
    with pytest.raises(Missing, match="no dense run, or nothing beside it"):
        show("methods_pareto", [], folder)


def test_the_larger_evaluation_is_taken(tmp_path):
    write(tmp_path / "a_small", n=2, methods=("sfi",))
    write(tmp_path / "b_large", n=2, methods=("sfi", "quest"))
    material = Material.gather([], [tmp_path])
    assert set(show("methods_pareto", material).found.looks) == {"sfi", "quest"}
    view = material.view()
    needle_map.data(view)
    assert view.used == [tmp_path / "b_large" / "samples.parquet"], "what it was made from, for the manifest"


def test_made_as_files_twice(evaluated, tmp_path):
    names = ["methods_pareto", "needle_map", "table4"]
    first, second = (make(Material.gather([], [evaluated]), tmp_path / d, names, ["svg"]) for d in "ab")
    assert [m.name for m in first.made] == names
    assert [m.files for m in first.made] == [m.files for m in second.made], "the same data, the same bytes"


def test_missing_says_how(tmp_path, evaluated):
    with pytest.raises(Missing, match="this makes it: sfi-lab evaluate --methods"):
        show("table4", [], changed(evaluated, tmp_path / "a", summary=None))
    others = pl.col("kind").is_in(["fact_qa", "multi_key"])
    with pytest.raises(
        Missing,
        match=r"of the task single_needle, .* is there; those there are of fact_qa, multi_key; .*sfi-lab evaluate",
    ):
        show("needle_map", [], changed(evaluated, tmp_path / "b", samples=lambda f: f.filter(others)))
    with pytest.raises(Missing, match="no evaluation of methods is there"):
        show("needle_map", [], changed(evaluated, tmp_path / "d", samples=None))
    with pytest.raises(SfiError, match="dense alone"):
        show("table4", [], changed(evaluated, tmp_path / "c", summary=lambda f: f.filter(pl.col("method") == "dense")))
    with pytest.raises(Missing, match="nothing beside it"):
        show("methods_pareto", [], tmp_path / "c")


def test_the_harness_writes_what_the_figures_read():
    """The made-up tables have columns of the real ones, in types that the figures can take."""
    from sfi_lab.evaluate import ROWS, SUMMARY, summarise

    made = samples(n=2, methods=("sfi", "quest"))
    assert set(made.columns) <= set(ROWS), set(made.columns) - set(ROWS)
    assert set(summary(made).columns) <= set(SUMMARY)
    real = summarise(made.with_columns([pl.lit(None, t).alias(c) for c, t in ROWS.items() if c not in made.columns]))
    ours = summary(made)
    at = {"group": "all", "length": 0, "method": "quest", "budget": 64}
    for name in ("n", "score", "difference", "read_share", "scored_share", "kl"):
        assert real.filter(**at)[name][0] == pytest.approx(ours.filter(**at)[name][0]), name
