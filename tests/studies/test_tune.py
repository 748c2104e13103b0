"""Tuning: the front by brute force, targets, and a winner that says why."""

import numpy as np
import polars as pl
import pytest

from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings
from sfi_lab.studies import Prefix, tune
from sfi_lab.studies.tune import Target, grid_around, pareto
from sfi_lab.trace import Trace

BASE = Settings.paper(sink=2, k=12, recent=16, t_max=8, nms_radius=3, prefill_window=4)


def test_pareto_by_brute_force():
    rng = np.random.default_rng(0)
    cost, gain = rng.integers(0, 12, 60) / 12, rng.integers(0, 12, 60) / 12
    on = pareto(cost, gain)
    for i in range(60):
        beaten = ((cost <= cost[i]) & (gain >= gain[i]) & ((cost < cost[i]) | (gain > gain[i]))).any()
        twin_before = on & (cost == cost[i]) & (gain == gain[i])
        assert on[i] == (not beaten) or (not on[i] and not beaten and twin_before.any()), (
            f"point {i}: {cost[i]}, {gain[i]}"
        )


def test_targets():
    points = pl.DataFrame({"setting": [0, 1, 2, 3], "kept": [0.90, 0.96, 0.97, 0.99], "read": [0.1, 0.3, 0.2, 0.6]})
    assert Target.parse("kept>=0.95").best(points)["setting"].to_list() == [2, 1, 3, 0]
    assert Target.parse("read<=0.3").best(points)["setting"].to_list() == [2, 1, 0, 3]
    assert Target.parse(" kept >= 1.0 ").best(points)["setting"][0] == 3, (
        "where nothing meets it, the nearest comes first"
    )
    for wrong in ("kept=0.9", "speed>=2", "read<=20"):
        with pytest.raises(SfiError, match=r"allowed: .kept>=0\.95"):
            Target.parse(wrong)


def test_the_grid_holds_its_base_first_and_no_double():
    grid = grid_around(BASE)
    assert grid[0] == BASE
    assert len(set(grid)) == len(grid) > 100


@pytest.fixture(scope="module")
def traces(tiny_lab, prose, tmp_path_factory):
    root, ids = tmp_path_factory.mktemp("tune"), tiny_lab.tokenizer(prose * 4)["input_ids"]
    made = []
    for i in range(2):
        dense = Settings.dense(sink=2, recent=16)
        Prefix(tiny_lab, ids[i * 50 : i * 50 + 120]).free(dense, 30, record="support+qk", trace=root / f"t{i}")
        made.append(Trace.open(root / f"t{i}"))
    return made


def test_without_a_model_the_result_is_a_proxys_and_says_so(traces):
    grid = [BASE, BASE.with_(k=6), BASE.with_(k=40), BASE.with_(trigger="period", period=2, t_max=0)]
    found = tune(traces, "read<=0.35", base=BASE, grid=grid)
    assert not found.confirmed
    assert "proxy, not confirmed" in found.why
    assert found.settings in grid
    assert f"The base keeps {found.table.filter(pl.col('setting') == 0)['kept'][0]:.4f}" in found.why
    chosen = found.table.filter(pl.col("setting") == grid.index(found.settings)).row(0, named=True)
    meets = found.table.filter((pl.col("read") <= 0.35) & pl.col("on_front"))
    assert chosen["kept"] == meets["kept"].max()
    assert found.table.height == 4


def test_with_a_model_the_best_few_are_run_again(tiny_lab, traces):
    grid = [BASE, BASE.with_(k=6), BASE.with_(k=40)]
    found = tune(traces, "kept>=0.5", base=BASE, grid=grid, lab=tiny_lab, confirm=2)
    again = found.table.filter(pl.col("kl").is_not_null())
    assert found.confirmed
    assert 1 <= again.height <= 3
    assert (again["run_read"] - again["read"]).abs().max() < 1e-6, (
        "teacher-forced on the same tokens, both read equally many keys"
    )
    # the first layer's queries don't depend on what was read, later ones do: near, not equal
    assert (again["run_kept"] - again["kept"]).abs().max() < 0.1
    assert "Proxy against re-run" in found.why
    assert "(proxy" not in found.why
    base = found.table.filter(pl.col("changed") == "nothing").row(0, named=True)
    assert f"The base keeps {base['run_kept']:.4f}" in found.why, "the confirmed base beside the confirmed winner"


def test_a_dense_trace_alone_is_no_start(traces):
    with pytest.raises(SfiError, match=r"give base=Settings\.paper"):
        tune(traces)
    with pytest.raises(SfiError, match="at least one trace"):
        tune([])
