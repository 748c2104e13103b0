"""Which supports are loaded: what was read, the audit's, or recomputed from queries and keys; and candidates alone."""

import numpy as np
import pytest
import torch

from made_traces import made_trace, sentences_of, stable, unrelated
from sfi_lab.analysis import supports
from sfi_lab.errors import SfiError


def tensors(n, prompt, heads=2, group=2, dim=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, heads * group, dim, generator=g), torch.randn(prompt + n, heads, dim, generator=g),
        torch.randn(prompt + n, heads, dim, generator=g),
    )  # fmt: skip


def test_auto_takes_the_best_source_there_is(tmp_path):
    n, labels = 6, sentences_of([3], 6)
    read, true = stable(n, rows=2), unrelated(n, rows=2)
    weights = np.full(true.shape, 1 / 16)
    dense = made_trace(tmp_path / "dense", read, labels, heads=2)
    audit = made_trace(tmp_path / "audit", read, labels, heads=2, sparse=True, true=(true, weights))
    kept = made_trace(tmp_path / "qk", read, labels, heads=2, sparse=True, qk={0: tensors(n, 400)})
    plain = made_trace(tmp_path / "plain", read, labels, heads=2, sparse=True)
    found = [supports(trace) for trace in (dense, audit, kept, plain)]
    assert [s.source for s in found] == ["dense", "true", "qk", "read"]
    assert [s.honest for s in found] == [True, True, True, False]
    assert np.array_equal(found[1].positions, true)
    assert np.array_equal(found[3].positions, read)
    with pytest.raises(SfiError, match="record with 'audit'"):
        supports(plain, source="true")
    with pytest.raises(SfiError, match="keeps no queries and keys of layer 0"):
        supports(plain, source="qk")


def test_supports_from_queries_are_the_group_mean_of_dense_attention(tmp_path):
    n, prompt = 5, 37
    q, k, v = tensors(n, prompt)
    s = supports(
        made_trace(tmp_path, stable(n, rows=2), sentences_of([2], n), heads=2, prompt=prompt, qk={0: (q, k, v)}),
        source="qk",
        top=9,
    )
    for i in range(n):
        for head in range(2):
            logits = q[i, 2 * head : 2 * head + 2] @ k[: prompt + i + 1, head].T / 2.0
            mean = logits.softmax(-1).mean(0)
            best = mean.topk(9)
            assert s.positions[i, head].tolist() == best.indices.tolist(), f"step {i + 1}, head {head}"
            np.testing.assert_allclose(s.weights[i, head], best.values, rtol=1e-5)
            assert s.total[i, head] == pytest.approx(1.0, abs=1e-5)


def test_candidates_leave_out_sink_and_recent(tmp_path):
    prompt = 40
    positions = np.array([[[0, 39, 5, 30, 2, 20, 25, 38]], [[0, 40, 6, 25, 1, 26, 3, 24]]])
    s = supports(
        made_trace(tmp_path, positions, np.zeros(2, int), prompt=prompt), among="candidates", sink=3, recent=15
    )
    # step 1 has 41 positions, so J is 3 … 25; step 2 has 42, J is 3 … 26
    assert s.positions[0, 0].tolist() == [5, 20, 25, -1, -1, -1, -1, -1]
    assert s.positions[1, 0].tolist() == [6, 25, 26, 3, 24, -1, -1, -1]
    assert (s.weights[0, 0, 3:] == 0).all()


def test_step_ranges_and_sentence_ends(tmp_path):
    trace = made_trace(tmp_path, stable(8), np.array([0, 0, 0, 1, 1, 2, 2, 2]))
    s = supports(trace, steps=(2, 6))
    assert s.steps.tolist() == [2, 3, 4, 5, 6]
    # queries are the fed tokens: step t feeds position prompt - 1 + t
    assert s.ends.tolist() == (np.diff(s.sentences, append=s.sentences[-1]) != 0).tolist()
    with pytest.raises(SfiError, match="no decode step between 50 and 60"):
        supports(trace, steps=(50, 60))
    with pytest.raises(SfiError, match="no support of layer 7"):
        supports(trace, layers=[7])
