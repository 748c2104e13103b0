"""KL, agreement, divergence and perplexity against values worked out by hand."""

import math

import polars as pl
import pytest
import torch

from made_traces import made_trace, sentences_of, stable
from sfi_lab.analysis import compare_logits, fidelity, fidelity_steps, first_divergence, perplexity
from sfi_lab.analysis.fidelity import summary
from sfi_lab.errors import SfiError


def test_kl_by_hand_and_its_direction():
    p, q = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.25, 0.5, 0.25]])
    row = compare_logits(p.log(), q.log() + 3.0, [1]).row(0, named=True)  # logits may be shifted
    assert row["kl"] == pytest.approx(0.25 * math.log(2), rel=1e-5)
    assert row["top1_agrees"] is False
    assert row["logprob_reference"] == pytest.approx(math.log(0.25), rel=1e-5)
    assert row["logprob_run"] == pytest.approx(math.log(0.5), rel=1e-5)
    skewed = torch.tensor([[0.9, 0.05, 0.05]])
    there, back = (compare_logits(a.log(), b.log())["kl"][0] for a, b in ((p, skewed), (skewed, p)))
    assert there != pytest.approx(back, rel=0.05), "KL(dense ‖ run) isn't symmetric"


def test_long_runs_are_compared_in_pieces_that_fit_together():
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(150, 31, generator=g), torch.randn(150, 31, generator=g)
    tokens = list(range(31)) * 4 + list(range(26))
    frame = compare_logits(a, b, tokens)
    want = torch.nn.functional.kl_div(b.log_softmax(-1), a.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    assert frame["row"].to_list() == list(range(150))
    torch.testing.assert_close(torch.tensor(frame["kl"].to_list()), want, rtol=1e-4, atol=1e-5)
    assert frame["logprob_run"][149] == pytest.approx(float(b[149].log_softmax(-1)[tokens[149]]), rel=1e-5)
    assert summary(frame)["rows"] == 150


def test_the_same_logits_give_nothing_to_report():
    a = torch.randn(3, 7)
    found = summary(compare_logits(a, a.clone(), [1, 2, 3]))
    assert found["kl"] == pytest.approx(0, abs=1e-6)
    assert found["top1"] == 1.0
    assert found["perplexity"] == found["perplexity_reference"]


def test_shapes_that_differ_are_named():
    with pytest.raises(SfiError, match=r"got \(3, 7\), \(4, 7\)"):
        compare_logits(torch.zeros(3, 7), torch.zeros(4, 7))
    with pytest.raises(SfiError, match="and 2 tokens"):
        compare_logits(torch.zeros(3, 7), torch.zeros(3, 7), [1, 2])


@pytest.mark.parametrize(
    ("a", "b", "at"), [([1, 2, 3], [1, 2, 4], 2), ([1], [2], 0), ([1, 2], [1, 2, 3], None), ([], [], None)]
)
def test_first_divergence(a, b, at):
    assert first_divergence(a, b) == at


def test_perplexity_of_a_uniform_guess_is_the_number_of_choices():
    assert perplexity([-math.log(17)] * 5) == pytest.approx(17)
    with pytest.raises(SfiError, match="no token"):
        perplexity([])


def test_an_audit_trace_in_numbers(tmp_path):
    columns = {"kl": [0.0, 0.2, 0.4], "top1_agrees": [True, False, True], "missed_mass": [0.0, 0.1, 0.2]}
    trace = made_trace(tmp_path / "a", stable(3), sentences_of([5], 3), sparse=True, step_columns=columns)
    found = fidelity(trace)
    assert found["kl"] == pytest.approx(0.2)
    assert found["kl_fast"] == pytest.approx(0.3)
    assert found["top1"] == pytest.approx(2 / 3)
    assert found["kept"] == pytest.approx(0.9)
    assert found["first_disagreement"] == 2
    assert found["perplexity"] == pytest.approx(math.e)
    steps = fidelity_steps(trace)
    assert steps["since_refresh"].to_list() == [0, 1, 2]
    assert steps.schema["since_refresh"] == pl.Int32
    with pytest.raises(SfiError, match="record with 'audit'"):
        fidelity(made_trace(tmp_path / "b", stable(3), sentences_of([5], 3)))
