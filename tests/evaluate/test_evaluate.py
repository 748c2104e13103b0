"""The harness on a tiny model: pairs, resumption, and that its numbers are the decoder's."""

import json

import polars as pl
import pytest

from harness_run import METHODS, SETTINGS, run, samples
from sfi_lab import Settings, SfiError
from sfi_lab.cli import main
from sfi_lab.decoder.read_prompt import ReadPrompt
from sfi_lab.evaluate import ROWS, SUMMARY, republish
from sfi_lab.evaluate.arms import make_arms
from sfi_lab.evaluate.plan import make_plan
from sfi_lab.evaluate.sample import dense_logprobs
from sfi_lab.studies.material import counter
from sfi_lab.tasks import parse_tasks


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
    assert (given["new_tokens"] == 12).all(), "max_new_tokens counts for given text too"
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "long_story: perplexity and divergence" in report


def test_dense_logprobs_are_those_of_a_dense_run(lab):
    read = ReadPrompt.read(lab, "The river was high. Nobody crossed it that day.")
    run_ = lab.generate(read, Settings.dense(), 9, progress=False, ignore_eos=True)
    want = [step.logprob for step in run_.steps]
    assert dense_logprobs(lab, read, run_.token_ids) == pytest.approx(want, abs=1e-4)


def test_a_prompt_counts_once_however_often_it_is_named(lab, tmp_path):
    found = run(lab, tmp_path, tasks="multi_key,multi_needle", methods="streaming", contexts=(400, 400), budgets=(24,))
    frame = samples(tmp_path)
    assert found["tasks"] == 2 and frame.height == 4
    assert set(pl.read_parquet(tmp_path / "summary.parquet")["n"]) == {2}
    assert frame["fingerprint"].n_unique() == 2


def test_the_estimate_weighs_long_prompts_more(lab, tmp_path):
    arms = make_arms("streaming", (24,), SETTINGS)
    plan = make_plan(lab, arms, parse_tasks("single_needle"), (300, 900), 1, 0, 4)
    short, long = plan.tasks
    assert 2 < plan.left(10.0, [short], [long]) / 10.0 < 4 and plan.left(10.0, [short, long], []) == 0


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
