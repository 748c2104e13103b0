"""The table: means, paired intervals and their words, from rows made by hand."""

import numpy as np
import polars as pl
import pytest

from sfi_lab.analysis.statistics import Estimate
from sfi_lab.evaluate import ROWS, summarise
from sfi_lab.evaluate.summary import verdict


def rows(scores, kind="single_needle", length=512, perplexities=None, kls=None, scoring="perplexity"):
    """scores: {(method, budget): [score a task]}; kls likewise."""
    made = []
    for (method, budget), values in scores.items():
        for i, value in enumerate(values):
            row = dict.fromkeys(ROWS)
            row |= {
                "task": f"{kind}-{length}-{i}", "kind": kind, "scoring": "answers" if perplexities is None else scoring,
                "length": length, "method": method, "budget": budget, "score": value,
                "kl": 0.1 * (method != "dense") if kls is None else kls[method, budget][i],
                "read_share": 0.25, "scored_share": 0.0, "keys_read": 128.0, "bytes_kept": 50, "dense_bytes": 100,
                "new_tokens": 11, "seconds": 2.0, "top1": 0.9,
                "perplexity": None if perplexities is None else perplexities[method, budget][i],
            }  # fmt: skip
            made.append(row)
    return pl.DataFrame(made, schema=ROWS)


def row_of(summary, method, group="single_needle", length=0):
    return summary.row(
        by_predicate=(pl.col("method") == method) & (pl.col("group") == group) & (pl.col("length") == length),
        named=True,
    )


def test_a_clear_loss_and_none():
    n = 20
    dense = [1.0] * n
    summary = summarise(rows({("dense", None): dense, ("sfi", 64): dense, ("streaming", 64): [0.0] * 15 + [1.0] * 5}))
    assert row_of(summary, "sfi")["verdict"] == "no difference found"
    lost = row_of(summary, "streaming")
    assert lost["verdict"] == "worse" and lost["difference"] == pytest.approx(-0.75)
    assert lost["difference_low"] < -0.75 < lost["difference_high"] < 0
    assert lost["to_sfi_verdict"] == "worse" and lost["to_sfi"] == pytest.approx(-0.75)
    assert row_of(summary, "sfi")["to_sfi"] is None and row_of(summary, "dense")["difference"] is None
    assert lost["seconds_per_token"] == pytest.approx(0.2) and lost["kept_share"] == 0.5


def test_pairs_are_matched_by_task_and_not_by_row():
    scores = {("dense", None): [0.0, 1.0, 0.0, 1.0], ("sfi", 64): [0.0, 1.0, 0.0, 1.0]}
    frame = rows(scores)
    shuffled = pl.concat([frame.filter(pl.col("method") == "dense"), frame.filter(pl.col("method") == "sfi").reverse()])
    found = row_of(summarise(shuffled), "sfi")
    assert found["difference"] == 0 and found["difference_low"] == 0 and found["difference_high"] == 0


def test_groups_and_lengths():
    frame = pl.concat(
        [rows({("dense", None): [1.0, 0.0], ("sfi", 64): [v, v]}, kind, length)
         for kind, length, v in (("single_needle", 512, 1.0), ("single_needle", 1024, 0.5), ("fact_qa", 512, 0.0), ("fact_qa", 1024, 0.0))]
    )  # fmt: skip
    summary = summarise(frame)
    assert set(zip(summary["group"], summary["length"], strict=True)) == {
        (g, n) for g in ("all", "single_needle", "fact_qa") for n in (0, 512, 1024)
    }
    assert row_of(summary, "sfi", "all")["score"] == pytest.approx(0.375)
    assert row_of(summary, "sfi", "single_needle", 1024)["score"] == 0.5
    assert row_of(summary, "sfi", "all")["n"] == 8


def test_perplexity_is_compared_as_a_log_ratio():
    none = {("dense", None): [None] * 3, ("sfi", 64): [None] * 3}
    given = {("dense", None): [10.0, 20.0, 40.0], ("sfi", 64): [11.0, 22.0, 44.0]}
    found = row_of(summarise(rows(none, "perplexity:x", 512, given)), "sfi", "perplexity:x")
    assert found["score"] is None and found["verdict"] is None
    assert found["log_perplexity_difference"] == pytest.approx(np.log(1.1))
    assert found["perplexity"] == pytest.approx(22.0)


def test_kl_is_compared_with_sfis_as_a_paired_ratio():
    n = 8
    theirs = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0, 2.0]
    kls = {
        ("dense", None): [0.0] * n, ("sfi", 64): theirs, ("oracle", 64): [kl / 4 for kl in theirs],
        ("tova", 64): [kl * (1.5 if i % 2 else 1 / 1.5) for i, kl in enumerate(theirs)], ("quest", 64): [0.0] * n,
    }  # fmt: skip
    summary = summarise(rows({arm: [1.0] * n for arm in kls}, kls=kls))
    oracle, tova, quest = (row_of(summary, name) for name in ("oracle", "tova", "quest"))
    assert oracle["kl_to_sfi"] == pytest.approx(0.25) and oracle["kl_to_sfi_verdict"] == "closer"
    assert oracle["kl_to_sfi_low"] == pytest.approx(0.25) == oracle["kl_to_sfi_high"]
    assert tova["kl_to_sfi"] == pytest.approx(1.0) and tova["kl_to_sfi_verdict"] == "no difference found"
    assert tova["kl_to_sfi_low"] < 1 < tova["kl_to_sfi_high"]
    assert quest["kl_to_sfi"] is None and quest["kl_to_sfi_verdict"] is None  # no ratio where it never diverges
    assert row_of(summary, "sfi")["kl_to_sfi"] is None


def test_long_texts_have_a_group_of_their_own():
    arms = {("dense", None): [None] * 4, ("sfi", 64): [None] * 4}
    made = [
        rows(arms, kind, length, {arm: [2.0] * 4 for arm in arms}, scoring="generation")
        for kind in ("long_story", "long_proof") for length in (512, 1024)
    ]  # fmt: skip
    given = rows(arms, "perplexity:x", 512, {arm: [2.0] * 4 for arm in arms})
    summary = summarise(pl.concat([*made, given]))
    assert row_of(summary, "sfi", "long_texts")["n"] == 16 and row_of(summary, "sfi", "long_texts", 512)["n"] == 8
    assert "all" not in summary["group"]


@pytest.mark.parametrize(
    ("numbers", "word"),
    [((0.1, 0.02, 0.2, 0.01), "better"), ((-0.1, -0.2, -0.02, 0.01), "worse"), ((0.1, -0.02, 0.2, 0.01), "no difference found"),
     ((0.1, 0.02, 0.2, 0.2), "no difference found"), ((0.1, float("nan"), float("nan"), float("nan")), "no difference found")],
)  # fmt: skip
def test_words(numbers, word):
    assert verdict(Estimate(*numbers, n=20)) == word
    assert verdict(Estimate(*numbers, n=5)) == "too few prompts"
