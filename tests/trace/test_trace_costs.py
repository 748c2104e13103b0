"""What a trace says of the costs beside the keys read: bytes held at the end, positions fed again; and traces without them."""

import polars as pl
import pytest

from sfi_lab import Settings, Trace

SPARSE = Settings(sink=2, recent=6, k=5, t_max=8, nms_radius=2)


@pytest.fixture
def prompt(prose):
    return prose[:300]


@pytest.mark.parametrize(
    "method", ["sfi", "streaming", "snapkv:window=4", "tova", "h2o", "knorm:skip_layers=0", "quest:page=4"]
)
def test_what_was_kept_is_what_the_run_says(tiny_lab, prompt, tmp_path, method):
    """After the last step: at the prompt's most methods that drop positions still hold them all."""
    result = tiny_lab.generate(
        prompt, SPARSE.with_(k=10), 6, method, ignore_eos=True, record="support", trace=tmp_path / "t"
    )
    info, kept = result.trace.info(), [step.bytes_kept for step in result.steps]
    assert info["bytes_kept"] == result.bytes_kept == kept[-1], f"{method}: {kept}"
    if method not in ("sfi", "streaming", "quest:page=4"):
        assert kept[-1] < kept[0] / 2, f"{method} dropped little: {kept}"


def test_positions_fed_again_are_counted(tiny_lab, prompt, tmp_path):
    settings = SPARSE.with_(trigger="period", period=4, t_max=0)
    for method, want in (("sfi", [0] * 13), ("sfi_rectified", [0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0])):
        folder = tmp_path / method
        result = tiny_lab.generate(prompt, settings, 13, method, ignore_eos=True, record="support", trace=folder)
        trace = result.trace
        assert trace.steps["positions_remade"].to_list() == want, method
        assert [step.positions_remade for step in result.steps] == want, method
        assert trace.info()["positions_remade"] == result.to_dict()["positions_remade"] == sum(want), method


def test_traces_from_before_a_column_was_there(tiny_lab, prompt, tmp_path):
    trace = tiny_lab.generate(prompt, SPARSE, 6, ignore_eos=True, record="support", trace=tmp_path / "t").trace
    for part in (trace.path / "steps").iterdir():
        pl.read_parquet(part).drop("positions_remade", "bytes_kept", "keys_scored").write_parquet(part)
    older = Trace.open(trace.path)
    assert older.steps["positions_remade"].to_list() == [None] * 6
    assert older.info()["positions_remade"] is None and older.info()["bytes_kept"] is None
    assert older.token_ids == trace.token_ids
