"""What an evaluation refuses, in a sentence and before it writes anything."""

import polars as pl
import pytest

from harness_run import run
from sfi_lab import SfiError
from sfi_lab.cli import main
from sfi_lab.decoder.read_prompt import ReadPrompt

WRONG = {
    "only dense": ({"methods": "dense"}, "name another method"),
    "unknown method": ({"methods": "snapvk"}, "did you mean snapkv"),
    "budget in a method": ({"methods": "streaming:budget=9"}, "--budget"),
    "small budget": ({"budgets": (3,)}, "budget = 3 leaves nothing to select"),
    "no budget": ({"budgets": (0,)}, "budget = 0 is not allowed"),
    "no samples": ({"samples": -1}, "samples = -1"),
    "no batch": ({"batch": 0}, "batch = 0"),
    "no context": ({"contexts": ()}, "contexts"),
    "unknown task": ({"tasks": "nedle"}, "nedle"),
    "one token": ({"max_new_tokens": 1}, "max_new_tokens = 1"),
    "too large a page": ({"methods": "quest:page=100"}, "page"),
    "no room for the answer": (
        {"max_new_tokens": 700},
        "single_needle-400-1 has .* no room for 700 new ones in the model's 1024",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_run_is_said_before_anything_is_decoded(lab, tmp_path, monkeypatch, name):
    over, sentence = WRONG[name]
    monkeypatch.setattr(ReadPrompt, "read", classmethod(lambda *_, **__: pytest.fail("decoding began")))
    with pytest.raises(SfiError, match=sentence):
        run(lab, tmp_path / "out", **over)
    assert not (tmp_path / "out").exists(), "a refused call leaves nothing behind"


def test_a_model_without_a_layer_that_could_be_made_sparse_is_refused(lab_of, tmp_path):
    windows = lab_of("mistral", "sdpa", num_hidden_layers=2, sliding_window=16, max_position_embeddings=1024)
    with pytest.raises(SfiError, match=r"every layer of .* keeps a window of its own"):
        run(windows, tmp_path / "out")


def test_results_of_another_prompt_are_not_taken_for_these(lab, tmp_path):
    """As after an edited template, another version of the task or a seed that shuffles: the name stays, the prompt doesn't."""
    run(lab, tmp_path, samples=1, methods="streaming", budgets=(24,))
    rows = tmp_path / "work" / "single_needle-400-0" / "rows.parquet"
    mine = pl.read_parquet(rows)
    mine.with_columns(fingerprint=pl.lit("0" * 16)).write_parquet(rows)
    with pytest.raises(SfiError, match="holds results of another prompt called single_needle-400-0"):
        run(lab, tmp_path, samples=1, methods="streaming", budgets=(24,))
    mine.drop("fingerprint").write_parquet(rows)  # written before there were fingerprints
    run(lab, tmp_path, samples=1, methods="streaming", budgets=(24,))


def test_a_folder_that_can_not_be_used_is_said_in_a_sentence(lab, tmp_path, capsys):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(SfiError, match="file/out can't hold results"):
        run(lab, tmp_path / "file" / "out")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "study.json").write_text("{", encoding="utf-8")
    with pytest.raises(SfiError, match=r"study\.json is damaged"):
        run(lab, tmp_path / "damaged")
    assert main(["evaluate", "--report-only", "-o", str(tmp_path / "damaged")]) == 2
    assert "study.json is damaged" in capsys.readouterr().err
