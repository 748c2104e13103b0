"""The harness on a tiny model: pairs, resumption, memory, what it refuses, and that its numbers are the decoder's."""

import json

import polars as pl
import pytest
import torch

from sfi_lab import Settings, SfiError
from sfi_lab.cli import main
from sfi_lab.decoder.batch import generate_together
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.evaluate import ROWS, SUMMARY, evaluate, republish
from sfi_lab.evaluate.arms import make_arms
from sfi_lab.evaluate.memory import Batcher
from sfi_lab.evaluate.sample import dense_logprobs
from sfi_lab.studies.material import counter
from sfi_lab.tasks import parse_tasks

METHODS = "sfi,streaming,sfi_rectified"
SETTINGS = Settings.paper(sink=2, trigger="period", period=4, nms_radius=2)


@pytest.fixture(scope="module")
def lab(lab_of):
    return lab_of("llama", "sdpa", num_hidden_layers=2, max_position_embeddings=1024)


def run(lab, out, **over):
    asked = {
        "methods": METHODS, "tasks": "single_needle", "budgets": (24, 40), "contexts": (400,), "samples": 2,
        "settings": SETTINGS, "max_new_tokens": 6, "out": out,
    } | over  # fmt: skip
    return evaluate(lab, asked.pop("methods"), asked.pop("tasks"), asked.pop("out"), **asked)


def samples(out):
    return pl.read_parquet(out / "samples.parquet")


def test_every_task_is_seen_by_every_arm_and_dense_once(lab, tmp_path):
    found = run(lab, tmp_path)
    frame = samples(tmp_path)
    assert dict(frame.schema) == ROWS
    assert found["tasks"] == 2 and found["arms"] == 7
    counts = frame.group_by("method", "budget").len()
    assert set(counts["len"]) == {2}
    assert sorted(counts.select("method", "budget").rows(), key=str) == sorted(
        [("dense", None), *((m, b) for m in METHODS.split(",") for b in (24, 40))], key=str
    )
    assert dict(pl.read_parquet(tmp_path / "summary.parquet").schema) == SUMMARY
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "too few prompts" in report and "streaming" in report


def test_rows_are_what_the_decoder_gives_alone(lab, tmp_path):
    run(lab, tmp_path)
    task = parse_tasks("single_needle")[0].tasks((400,), 2, 0, counter(lab))[0]
    ids = lab.tokenizer(task.prompt)["input_ids"]
    dense = lab.generate(ids, Settings.dense(), 6, progress=False)
    for arm in make_arms(METHODS, (24, 40), SETTINGS)[1:]:
        row = samples(tmp_path).row(
            by_predicate=(pl.col("task") == task.name)
            & (pl.col("method") == arm.method.label)
            & (pl.col("budget") == arm.budget),
            named=True,
        )
        free = lab.generate(ids, arm.settings, 6, arm.method, progress=False)
        assert row["text"] == free.text
        assert row["keys_read"] == pytest.approx(sum(s.keys_read for s in free.steps[1:]) / len(free.steps[1:]))
        assert row["bytes_kept"] == free.bytes_kept and row["slow_steps"] == free.slow_steps
        rows, wanted = [], []
        lab.generate(ids, arm.settings, 6, arm.method, progress=False, force=dense.token_ids,
                     watch=lambda i, x, rows=rows: rows.append(x.log_softmax(-1)))  # fmt: skip
        lab.generate(ids, Settings.dense(), 6, progress=False, force=dense.token_ids,
                     watch=lambda i, x, wanted=wanted: wanted.append(x.log_softmax(-1)))  # fmt: skip
        kl = [float((w.exp() * (w - r)).sum()) for w, r in zip(wanted[1:], rows[1:], strict=True)]
        assert row["kl"] == pytest.approx(sum(kl) / len(kl), abs=1e-5)
        assert row["forced_steps"] == len(kl)


def test_a_killed_run_goes_on_and_nothing_is_decoded_twice(lab, tmp_path, monkeypatch):
    def dies(line):
        if line.startswith("1 of 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(lab, tmp_path, samples=3, batch=1, progress=dies)
    lines = []
    run(lab, tmp_path, samples=3, batch=1, progress=lines.append)
    assert lines[0] == "1 of 3 tasks are done already"
    assert samples(tmp_path)["task"].n_unique() == 3
    monkeypatch.setattr(ReadPrompt, "read", classmethod(lambda *_, **__: pytest.fail("read again")))
    run(lab, tmp_path, samples=3, batch=1)
    with pytest.raises(SfiError, match="another arms"):
        run(lab, tmp_path, budgets=(24,))


def test_a_folder_filled_by_several_calls_is_published_without_a_model(lab, tmp_path, capsys):
    run(lab, tmp_path, command="first")
    run(lab, tmp_path, tasks="multi_key", command="second")
    assert samples(tmp_path)["kind"].unique().to_list() == ["multi_key"]
    found = republish(tmp_path)
    assert found["tasks"] == 4 and set(samples(tmp_path)["kind"]) == {"single_needle", "multi_key"}
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "    first\n    second\n" in report and found["machines"][0]["device"] in report
    assert main(["evaluate", "-o", str(tmp_path), "--report-only"]) == 0
    assert capsys.readouterr().out.strip() == f"{tmp_path}/report.md"
    assert main(["evaluate", "-o", str(tmp_path / "none"), "--report-only"]) == 2
    assert "holds no evaluation" in capsys.readouterr().err


def test_progress_estimates_the_time_left(lab, tmp_path):
    lines = []
    run(lab, tmp_path, progress=lines.append)
    assert lines and "so far, about" in lines[-1] and lines[-1].startswith("2 of 2")


def test_greedy_is_plain_whatever_the_model_prefers(lab, tmp_path, monkeypatch):
    run(lab, tmp_path / "a")
    monkeypatch.setattr(lab.model.generation_config, "repetition_penalty", 5.0)
    run(lab, tmp_path / "b")
    assert samples(tmp_path / "a")["text"].equals(samples(tmp_path / "b")["text"])


def test_size_of_the_batch_changes_nothing(lab, tmp_path):
    run(lab, tmp_path / "a", batch=1)
    run(lab, tmp_path / "b", batch=64)
    exact = ["task", "method", "budget", "text", "keys_read", "bytes_kept", "slow_steps", "score"]
    a, b = samples(tmp_path / "a"), samples(tmp_path / "b")
    assert a.select(exact).equals(b.select(exact))
    assert (a["kl"] - b["kl"]).abs().max() < 1e-5


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no room"), MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")]
)
def test_out_of_memory_halves_the_batch(lab, tmp_path, monkeypatch, error):
    sizes = []

    def short_of_memory(the_lab, jobs):
        sizes.append(len(jobs))
        if len(jobs) > 3:
            generate_together(the_lab, jobs[:1])  # gets somewhere before it fails
            raise error
        return generate_together(the_lab, jobs)

    run(lab, tmp_path / "whole")
    monkeypatch.setattr("sfi_lab.evaluate.memory.generate_together", short_of_memory)
    lines = []
    run(lab, tmp_path / "halved", progress=lines.append, batch=14)
    assert (
        max(sizes[sizes.index(12) + 1 :]) <= 6
        and lines.count("out of memory with 12 runs at once; going on with 6") == 1
    )
    a, b = samples(tmp_path / "whole"), samples(tmp_path / "halved")
    assert (a["kl"] - b["kl"]).abs().max() < 1e-5 and a["text"].equals(b["text"])


def test_what_is_no_lack_of_memory_is_not_hidden(lab, monkeypatch):
    def fails(*_):
        raise RuntimeError("something else")

    monkeypatch.setattr("sfi_lab.evaluate.memory.generate_together", fails)
    with pytest.raises(RuntimeError, match="something else"):
        Batcher(lab, 8).generate([None] * 4)


def test_long_texts_are_scored_by_the_dense_model(lab, tmp_path):
    run(
        lab, tmp_path, tasks="long_story,perplexity:pydoc", samples=1, contexts=(500,), max_new_tokens=12, budgets=(24,)
    )
    frame = samples(tmp_path)
    assert frame["score"].null_count() == frame.height
    assert (frame["perplexity"] > 1).all()
    story = frame.filter(pl.col("kind") == "long_story")
    assert story.filter(pl.col("method") == "dense")["first_difference"].item() is None
    assert story["equal_share"].max() == 1.0
    given = frame.filter(pl.col("kind") != "long_story")
    assert (given["new_tokens"] > 12).all(), "given text is fed whole"
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "long_story: perplexity and divergence" in report


def test_dense_logprobs_are_those_of_a_dense_run(lab):
    read = ReadPrompt.read(lab, "The river was high. Nobody crossed it that day.")
    run_ = lab.generate(read, Settings.dense(), 9, progress=False, ignore_eos=True)
    want = [step.logprob for step in run_.steps]
    assert dense_logprobs(lab, read, run_.token_ids) == pytest.approx(want, abs=1e-4)


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
}


@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_run_is_said_before_anything_is_decoded(lab, tmp_path, monkeypatch, name):
    over, sentence = WRONG[name]
    monkeypatch.setattr(ReadPrompt, "read", classmethod(lambda *_, **__: pytest.fail("decoding began")))
    with pytest.raises(SfiError, match=sentence):
        run(lab, tmp_path / "out", **over)


def test_the_command_line_prints_one_object(lab, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sfi_lab.lab.load", lambda *_: lab)
    arguments = ["evaluate", "--methods", "sfi,streaming", "--tasks", "single_needle", "--budget", "24", "--context", "400", "--samples", "1",
                 "--max-new-tokens", "4", "--sink", "2", "-o", str(tmp_path / "o"), "--json"]  # fmt: skip
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert out.count("\n") == 1 and found["arms"] == 3 and "left" in err
    assert main([*arguments, "--k", "9"]) == 2
    assert "leave --k out" in capsys.readouterr().err
    assert main([*arguments, "--budget", "x"]) == 2
    assert "--budget takes whole numbers" in capsys.readouterr().err
