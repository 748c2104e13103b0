"""Times by route and stage, and the memory bound, on steps with known times."""

import pytest

from made_traces import made_trace, sentences_of, stable
from sfi_lab.analysis import memory_bound, slow_share, step_times, timing, timing_by_context
from sfi_lab.errors import SfiError


@pytest.fixture
def trace(tmp_path):
    n = 21  # one slow step, twenty fast ones of 1 … 20 ms attention
    columns = {
        "ms_model": [10.0] * n, "ms_attention": [50.0, *map(float, range(1, 21))], "ms_topk": [5.0] + [0.0] * 20, "ms_sample": [1.0] * n,
        "ms_record": [100.0] * n,
    }  # fmt: skip
    return made_trace(tmp_path, stable(n), sentences_of([30], n), sparse=True, prompt=100, step_columns=columns)


def test_totals_leave_out_the_recording(trace):
    times = step_times(trace)
    assert times["total"].to_list() == [66.0, *[11.0 + i for i in range(1, 21)]]
    assert times["record"].to_list() == [100.0] * 21
    assert step_times(trace, (2, 4)).height == 3
    with pytest.raises(SfiError, match="no decode step between 80 and 90"):
        step_times(trace, (80, 90))


def test_percentiles_and_shares_by_route(trace):
    frame = timing(trace)
    fast = frame.filter((frame["route"] == "fast") & (frame["stage"] == "attention")).row(0, named=True)
    assert fast["p50"] == pytest.approx(10.5)
    assert fast["p95"] == pytest.approx(19.05)
    assert fast["share"] == pytest.approx(10.5 / 21.5)
    slow = frame.filter(frame["route"] == "slow")
    assert slow.row(0, named=True)["stage"] == "total"
    parts = slow.filter(~slow["stage"].is_in(["total", "record"]))["mean"].sum()
    assert parts == pytest.approx(slow["mean"][0])
    share = slow_share(trace)
    assert share["share_of_steps"] == pytest.approx(1 / 21)
    assert share["fast_over_slow"] == pytest.approx(21.5 / 66)


def test_time_against_context_counts_every_step_once(trace):
    frame = timing_by_context(trace, bins=4)
    assert frame["steps"].sum() == 21
    assert frame["context_low"].min() == 101
    assert frame["context_high"].max() == 121


def test_memory_bound_by_hand(trace):
    # 1 layer, 1 KV head, 4 numbers of 4 bytes, keys and values: 32 bytes a key
    frame = memory_bound(trace, bandwidth=1e6, weight_bytes=1000)
    assert frame["kv_bytes"].to_list()[:2] == [101 * 32, 40 * 32]
    assert frame["bound"][1] == pytest.approx((40 * 32 + 1000) / 1e6 * 1e3)
    assert frame["times_bound"][1] == pytest.approx(12.0 / frame["bound"][1])
    with pytest.raises(SfiError, match="bandwidth = 0 is not allowed"):
        memory_bound(trace, 0)
