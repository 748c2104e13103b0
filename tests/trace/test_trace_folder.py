"""The folder on disk: killed runs, damaged and foreign folders, nothing overwritten, sizes known before."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

from sfi_lab import Settings, SfiError, Trace, whatif
from sfi_lab.trace import SCHEMA_VERSION, RecordRequest
from sfi_lab.trace.request import BUDGET

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)


@pytest.fixture(scope="module")
def whole(tiny_lab, prose, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "t"
    tiny_lab.generate(prose[:200], SPARSE, 70, ignore_eos=True, record="support+qk", trace=folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "t"))


def part(folder, table, number, suffix="parquet"):
    return folder / table / f"part-{number:05d}.{suffix}"


def change_meta(folder, **changes):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8")) | changes
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


# damage -----------------------------------------------------------------------------------------------------------


def test_no_folder_no_meta_foreign_and_newer(folder, tmp_path):
    with pytest.raises(SfiError, match="there is no trace folder at"):
        Trace.open(tmp_path / "nowhere")
    with pytest.raises(SfiError, match="there is no trace folder at"):
        Trace.open(folder / "meta.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SfiError, match=r"is not an sfi_lab trace: it has no meta\.json"):
        Trace.open(tmp_path / "empty")
    change_meta(folder, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(
        SfiError, match=f"has trace schema {SCHEMA_VERSION + 1}; this sfi_lab reads up to {SCHEMA_VERSION}: update"
    ):
        Trace.open(folder)
    for foreign in ({"format": "other"}, {"format": None}, {"schema_version": "1"}):
        change_meta(folder, **{"format": "sfi_lab.trace", "schema_version": 1, **foreign})
        with pytest.raises(SfiError, match=r"is not an sfi_lab trace|has trace schema"):
            Trace.open(folder)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\xff\xfe", '{"format": "sfi_lab.trace", "schema_version": 1}'])
def test_a_meta_file_that_is_no_meta_file(folder, text):
    (folder / "meta.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(SfiError, match=r"meta\.json"):
        Trace.open(folder)


@pytest.mark.parametrize("table", ["steps", "tokens", "support", "selection"])
@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_truncated_part_is_named(folder, table, keep):
    path = part(folder, table, 1)
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    with pytest.raises(SfiError, match=rf"{table}/part-00001\.parquet is damaged or truncated"):
        Trace.open(folder)


@pytest.mark.parametrize("keep", [0, 7, -1])
def test_truncated_queries_and_keys_are_named_at_opening(folder, keep):
    path = part(folder, "qk", 1, "safetensors")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SfiError, match=r"qk/part-00001\.safetensors is damaged or truncated"):
        Trace.open(folder)


@pytest.mark.parametrize(
    ("table", "suffix"), [("steps", "parquet"), ("tokens", "parquet"), ("support", "parquet"), ("qk", "safetensors")]
)
def test_a_missing_part_is_named(folder, table, suffix):
    part(folder, table, 1, suffix).unlink()
    with pytest.raises(SfiError, match=rf"{table}/part-00001\.{suffix} is missing"):
        Trace.open(folder)


def test_a_part_of_another_table_is_named(folder):
    shutil.copy(part(folder, "tokens", 0), part(folder, "support", 0))
    with pytest.raises(SfiError, match="is not a support table of this schema: column 'step' is missing"):
        Trace.open(folder)


def test_a_half_written_part_is_not_read(folder):
    (folder / "steps" / "part-00009.partial").write_bytes(b"PAR1 half")
    assert Trace.open(folder).steps.height == 70


def test_parts_without_their_steps_are_left_out(folder):
    """A kill between the flush's tables leaves support, tokens and keys beyond the last steps: `steps` is written last."""
    last = sorted((folder / "steps").iterdir())[-1]
    last.unlink()
    trace = Trace.open(folder)
    assert trace.steps.height == 64
    assert trace.support.collect()["step"].max() == 63
    assert trace.tokens["position"].max() == trace.steps["position"].max() + 1
    assert trace.queries(0).shape[0] == 63
    assert trace.keys(0).shape[0] == trace.steps["position"].max() + 1
    assert whatif(trace, SPARSE, [1]).steps["step"].max() == 63


def test_nothing_flushed_yet(folder):
    shutil.rmtree(folder / "steps")
    with pytest.raises(SfiError, match="has no finished step: the run ended before its first flush"):
        Trace.open(folder)


def test_nothing_is_overwritten(tiny_lab, whole, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    with pytest.raises(SfiError, match="exists and is not empty; give a new folder, nothing recorded is overwritten"):
        tiny_lab.generate("Come in", SPARSE, 3, record="support", trace=whole)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SfiError, match="is a file"):
        tiny_lab.generate("Come in", SPARSE, 3, record="support", trace=tmp_path / "file")
    with pytest.raises(SfiError, match="can't be made"):
        tiny_lab.generate("Come in", SPARSE, 3, record="support", trace=tmp_path / "file" / "below")
    (tmp_path / "empty").mkdir()
    assert tiny_lab.generate("Come in", SPARSE, 3, record="support", trace=tmp_path / "empty").trace.steps.height == 3


# kill -9 ----------------------------------------------------------------------------------------------------------

# A process of its own and not a fork: polars' threads don't survive one.
RECORD = """
import sys
sys.path[:0] = [{tests!r}]
from conftest import make_lab
from test_trace_folder import SPARSE
for step in make_lab(num_hidden_layers=3).stream({prompt!r}, SPARSE, 400, ignore_eos=True, record="audit+qk", trace={folder!r}):
    print(step.index, flush=True)
"""


def test_a_killed_run_is_readable_up_to_its_last_flush(tiny_lab, prose, tmp_path):
    prompt = prose[:200]
    here = Path(__file__).parent
    code = RECORD.format(tests=str(here.parent), prompt=prompt, folder=str(tmp_path / "t"))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=here)
    assert any(int(line) >= 75 for line in process.stdout), "the run ended before it could be killed"
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    trace = Trace.open(tmp_path / "t")
    assert trace.meta["finished"] is False
    assert trace.steps.height >= 64
    assert trace.steps.height % 32 == 0
    assert trace.steps["step"].to_list() == list(range(trace.steps.height))
    whole = tiny_lab.generate(prompt, SPARSE, trace.steps.height, ignore_eos=True)
    assert trace.token_ids == whole.token_ids
    assert trace.text.startswith(whole.text[:40])
    assert trace.support.collect()["step"].max() == trace.steps.height - 1
    assert whatif(trace, SPARSE).kind == "exact"
    assert trace.info()["finished"] is False


# size -------------------------------------------------------------------------------------------------------------


def real_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Enough(Exception):
    """The estimate is known; the run needn't be made."""


def estimate_of(lab, monkeypatch, prompt, settings, n, **options):
    """What a run's check is told before anything is written."""

    def check(_request, estimate, _budget):
        raise Enough(estimate)

    with monkeypatch.context() as patch:
        patch.setattr(RecordRequest, "check_budget", check)
        with pytest.raises(Enough) as seen:
            lab.generate(prompt, settings, n, ignore_eos=True, **options)
    return seen.value.args[0]


SIZES = {
    "usual": Settings(recent=64, k=128, t_max=16, trigger="never"),
    "few keys": Settings(recent=8, k=10, t_max=32, trigger="never"),
    "many selected": Settings(sink=0, recent=16, k=300, trigger="period", period=3, t_max=0),
    "sentences": Settings(recent=64, k=64),
    "dense": Settings.dense(),
}


@pytest.mark.parametrize(
    ("name", "record"), [*((name, "support") for name in SIZES), ("usual", "audit+qk"), ("few keys", "support+qk")]
)
def test_the_size_is_known_before(tiny_lab, monkeypatch, tmp_path, name, record):
    ids = torch.randint(5, 400, (400,), generator=torch.Generator().manual_seed(3)).tolist()
    estimate = estimate_of(tiny_lab, monkeypatch, ids, SIZES[name], 64, record=record)
    tiny_lab.generate(ids, SIZES[name], 64, ignore_eos=True, record=record, trace=tmp_path / "t")
    real = real_bytes(tmp_path / "t")
    assert 0.6 < estimate["total"] / real < 1.4, f"estimated {estimate}, really {real}"
    if "qk" in record:
        assert estimate["qk"] == pytest.approx(real_bytes(tmp_path / "t" / "qk"), rel=0.1)


@pytest.fixture(scope="module")
def deep_lab(lab_of):
    return lab_of(num_hidden_layers=6)


@pytest.mark.parametrize("record", ["support", "support+qk", "audit+qk"])
@pytest.mark.parametrize("share", [0.9, 0.5, 0.4])
def test_a_run_over_budget_asks_for_fewer_layers_that_fit(deep_lab, monkeypatch, tmp_path, record, share):
    ids, n = list(range(5, 300)), 40
    estimate = estimate_of(deep_lab, monkeypatch, ids, SPARSE, n, record=record)
    budget = int(estimate["tables"] + (estimate["total"] - estimate["tables"]) * share)
    options = {"record": record, "trace": tmp_path / "t", "trace_budget": budget, "ignore_eos": True}
    with pytest.raises(SfiError, match=r"over the budget .*about \d of 6 fit.*or raise trace_budget") as error:
        deep_lab.stream(ids, SPARSE, n, **options)
    part, fits = re.search(r"\((\w+): about (\d) of 6 fit\)", str(error.value)).groups()
    one_more = list(range(int(fits) + 1))
    with pytest.raises(SfiError, match="over the budget"):
        deep_lab.stream(ids, SPARSE, n, **options, **{part: one_more})
    assert not (tmp_path / "t").exists()
    deep_lab.stream(ids, SPARSE, n, **options, **{part: one_more[:-1]})
    assert (tmp_path / "t").exists()


def test_the_default_budget_is_two_gigabytes(tiny_lab, tmp_path, monkeypatch):
    assert BUDGET == 2_000_000_000
    with pytest.raises(
        SfiError,
        match=r"over the budget of 0\.0001 MB; record fewer layers \(record_layers and qk_layers\), fewer positions",
    ):
        tiny_lab.generate("Come in", SPARSE, 50, record="support", trace=tmp_path / "t", trace_budget=100)


def test_parts_are_written_as_the_run_goes(tiny_lab, prose, tmp_path):
    stream = tiny_lab.stream(prose[:200], SPARSE, 100, ignore_eos=True, record="support", trace=tmp_path / "t")
    for _ in range(40):
        next(stream)
    assert pl.read_parquet(tmp_path / "t" / "steps" / "part-00000.parquet").height == 32
    assert Trace.open(tmp_path / "t").steps.height == 32
    stream.close()
    assert Trace.open(tmp_path / "t").steps.height == 40
