"""Files on disk: the same bytes from the same data, fonts inside, sizes of a paper, missing data named."""

import argparse
import importlib
import json
import pkgutil
import re
import shlex
import time
from pathlib import Path

import pytest
from PIL import Image

from sfi_lab.errors import SfiError
from sfi_lab.figures import NAMES, Material, make
from sfi_lab.figures.material import RECORD
from sfi_lab.figures.registry import is_table, recipe

ROOT = Path(__file__).parents[2]
FROM_TRACE = ["models", "step_times"]  # images; lines and bars


def test_same_data_same_bytes(demo, tmp_path):
    make(demo, tmp_path / "a", FROM_TRACE, command="x")
    time.sleep(1.1)  # a time stamp in a file would show
    again = Material.gather([demo.traces[0].path])  # nothing shared with the first
    make(again, tmp_path / "b", FROM_TRACE, command="x")
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "ab")
    assert set(first) == set(second)
    differ = [name for name in first if first[name] != second[name]]
    assert not differ, f"not the same bytes: {differ}"


def test_formats(demo, tmp_path):
    make(demo, tmp_path, ["lambda_heads"])
    pdf, svg = (tmp_path / "lambda_heads.pdf").read_bytes(), (tmp_path / "lambda_heads.svg").read_text()
    assert b"/FontFile2" in pdf, "TrueType fonts are embedded"
    assert b"/Type3" not in pdf.replace(b" ", b""), "no bitmap fonts"
    assert b"CreationDate" not in pdf
    assert "<text" not in svg, "glyphs are outlines, so no font has to be installed"
    assert "<dc:date>" not in svg
    width, height = Image.open(tmp_path / "lambda_heads.png").size
    assert width == round(3.4 * 300), "a column's width at 300 dots an inch"
    assert 100 < height < 3000
    points = [float(x) for x in re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+)", pdf).groups()]
    assert points[0] == pytest.approx(3.4 * 72)


def test_manifest(demo, tmp_path):
    make(demo, tmp_path, ["lambda_heads", "throughput"], ["svg"], command="sfi-lab figures …")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (entry,) = manifest["figures"]
    assert manifest["command"] == "sfi-lab figures …"
    assert {"matplotlib", "polars", "python", "sfi_lab"} <= set(manifest["versions"])
    assert list(entry["files"]) == ["lambda_heads.svg"]
    assert len(entry["data_sha256"]) == 64
    (source,) = entry["sources"]
    assert source["model"] == "smollm2-135m"
    assert source["settings"]["k"] == 96
    (lacks,) = manifest["missing"]
    assert lacks["name"] == "throughput"
    assert lacks["command"].startswith("sfi-lab bench decode")
    assert "lambda_heads" in (tmp_path / "captions.md").read_text()


def test_data_hash_follows_content_not_place(results, tmp_path):
    def data_hash(folder, out):
        make(Material.gather([], [folder]), out, ["gain"], ["svg"])
        return json.loads((out / "manifest.json").read_text())["figures"][0]["data_sha256"]

    before = data_hash(results, tmp_path / "a")
    moved = results.rename(tmp_path / "elsewhere")
    assert data_hash(moved, tmp_path / "b") == before
    import polars as pl

    file = moved / "h200" / "decode.parquet"
    pl.read_parquet(file).with_columns(pl.col("tokens_per_second") * 2).write_parquet(file)
    assert data_hash(moved, tmp_path / "c") != before


def test_unknown_names_and_formats_are_refused(demo, tmp_path):
    with pytest.raises(SfiError, match=r"unknown figure 'mapz'; there are: maps, "):
        make(demo, tmp_path, ["mapz"])
    with pytest.raises(SfiError, match=r"unknown format 'eps'; allowed: pdf, svg, png"):
        make(demo, tmp_path, ["maps"], ["eps"])


def test_bad_input_is_named(tmp_path):
    with pytest.raises(SfiError, match="no results folder"):
        Material.gather([], [tmp_path / "nowhere"])
    with pytest.raises(SfiError, match="name a trace folder"):
        Material.gather()
    (tmp_path / "x.parquet").write_bytes(b"nonsense")
    report = make(Material.gather([], [tmp_path]), tmp_path / "out", ["gain"])
    assert "x.parquet is damaged" in report.missing[0].why


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_says_what_it_is(name):
    module = recipe(name)
    assert module.TITLE
    assert module.NEEDS
    assert (
        callable(module.table)
        if is_table(module)
        else all(callable(getattr(module, f)) for f in ("data", "draw", "caption"))
    )


def test_commands_that_make_data_exist(tmp_path):
    """A command that a missing figure names must be one that the command line knows (or a script that is there)."""
    from sfi_lab import cli
    from sfi_lab.figures import bench_rows

    line = argparse.ArgumentParser()
    subparsers = line.add_subparsers(required=True)
    for found in pkgutil.iter_modules(cli.__path__):
        module = importlib.import_module(f"sfi_lab.cli.{found.name}")
        if hasattr(module, "add"):
            module.add(subparsers)

    commands = {bench_rows.DECODE_COMMAND, bench_rows.KERNEL_COMMAND, bench_rows.TIMELINE_COMMAND, RECORD}
    commands |= {module.COMMAND for module in map(recipe, NAMES) if hasattr(module, "COMMAND")}
    for command in commands:
        program, *words = shlex.split(command)
        if program == "python":
            assert (ROOT / words[0]).is_file(), command
        else:
            assert program == "sfi-lab"
            line.parse_args(words)  # exits with an error for a word that isn't known
