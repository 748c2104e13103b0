"""`sfi-lab generate`: what it decodes, what lands on which stream, and which options reach the run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SPARSE, generate
from sfi_lab import Settings, Trace
from sfi_lab.cli.generate import _read
from sfi_lab.text import prompt, prompt_names
from sfi_lab.text.prompts import prompts_folder

KEYS = {"text", "token_ids", "prompt_tokens", "slow_steps", "reasons", "keys_read_share", "tokens_per_second", "trace"}
COMMAND = Path(sys.executable).with_name("sfi-lab")


def test_another_method_decodes_and_says_what_it_read_and_kept(prompt_file, on_tiny, capsys, tmp_path):
    assert generate(prompt_file, *SPARSE, "--method", "streaming", "--json", "--trace", tmp_path / "t") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "streaming" and found["slow_steps"] == 0
    steps = Trace.open(tmp_path / "t").steps.filter(Trace.open(tmp_path / "t").steps["route"] == "fast")
    assert steps["keys_read"].to_list() == [13.0] * 11
    assert found["bytes_kept"] == 13 * 3 * 2 * 2 * 8 * 4, (
        "13 positions, 3 layers, 2 KV heads, keys and values of 8 floats"
    )


def test_json_is_one_object_and_nothing_else(prompt_file, on_tiny, tiny_lab, capsys, tmp_path):
    assert generate(prompt_file, *SPARSE, "--json", "--trace", tmp_path / "t") == 0
    out, _ = capsys.readouterr()
    assert out.count("\n") == 1
    found = json.loads(out)
    assert set(found) >= KEYS
    want = tiny_lab.generate(
        prompt_file.read_text(encoding="utf-8"), Settings.paper(k=5, recent=6, sink=2, t_max=4), 12
    )
    assert found["text"] == want.text
    assert found["token_ids"] == want.token_ids
    assert found["prompt_tokens"] == want.prompt_tokens
    assert (found["slow_steps"], found["reasons"]) == (want.slow_steps, want.reasons)
    assert sum(found["reasons"].values()) == found["slow_steps"] > 1
    assert found["keys_read_share"] == pytest.approx(want.keys_read_share, abs=1e-5)
    assert found["tokens_per_second"] > 0
    assert Trace.open(found["trace"]).token_ids == want.token_ids
    assert generate(prompt_file, "--json") == 0
    assert json.loads(capsys.readouterr().out)["trace"] is None


def test_the_text_alone_goes_to_standard_output(prompt_file, on_tiny, tiny_lab, capsys):
    assert generate(prompt_file, *SPARSE) == 0
    out, err = capsys.readouterr()
    want = tiny_lab.generate(
        prompt_file.read_text(encoding="utf-8"), Settings.paper(k=5, recent=6, sink=2, t_max=4), 12
    )
    assert out == want.text + "\n"
    assert "of the keys read" in err
    assert "slow steps" in err


def test_options_reach_the_run(prompt_file, on_tiny, tiny_lab, capsys, tmp_path):
    text = prompt_file.read_text(encoding="utf-8")

    def run(*arguments):
        assert generate(prompt_file, "--json", *arguments) == 0
        return json.loads(capsys.readouterr().out)

    dense = run("--preset", "dense")
    assert dense["keys_read_share"] == 1.0
    drawn = [run("--temperature", "1.5", "--top-p", "0.9", "--seed", seed)["token_ids"] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    asked = tiny_lab.generate(text, Settings(seed=2), 12, do_sample=True, temperature=1.5, top_p=0.9)
    assert drawn[2] == asked.token_ids, "--temperature is that of Python's generate"
    stop = dense["text"][3:6]
    assert (
        run("--preset", "dense", "--stop", "never", "--stop", stop)["text"]
        == dense["text"][: dense["text"].index(stop)]
    )
    chat = run("--chat", "--preset", "dense")
    assert chat["token_ids"] == tiny_lab.generate([{"role": "user", "content": text}], Settings.dense(), 12).token_ids
    layers = run(
        *SPARSE,
        "--record",
        "audit+qk",
        "--record-layers",
        "0,2",
        "--qk-layers",
        "2",
        "--record-top",
        "3",
        "--trace",
        tmp_path / "t",
    )
    trace = Trace.open(layers["trace"])
    assert (trace.meta["record"], trace.layers, trace.qk_layers, trace.meta["top"]) == ("audit+qk", [0, 2], [2], 3)


def test_a_project_prompt_is_the_same_text_as_in_python(on_tiny, tiny_lab, capsys, tmp_path):
    """Its file has a header, which is no part of the prompt; a text of one's own that begins with dashes keeps them."""
    (tmp_path / "prompts").mkdir()
    text = "The river was high.\n\nNobody crossed it that day."
    file = tmp_path / "prompts" / "mine.md"
    file.write_text(f"---\nkind: note\nlanguage: en\n---\n{text}\n", encoding="utf-8")

    def prompt_ids(*arguments):
        assert generate(*arguments, "--trace", tmp_path / f"t{len(list(tmp_path.iterdir()))}", "--json") == 0
        tokens = Trace.open(json.loads(capsys.readouterr().out)["trace"]).tokens
        return tokens.filter(tokens["role"] == "prompt")["token_id"].to_list()

    assert prompt_ids(file) == tiny_lab.tokenizer(text)["input_ids"]
    own = "---\ntitle: a plan\nlanguage: en\n---\nText.\n"
    (tmp_path / "own.md").write_text(own, encoding="utf-8")
    assert prompt_ids(tmp_path / "own.md") == tiny_lab.tokenizer(own)["input_ids"]


def test_every_file_of_the_projects_prompts_is_read_as_python_reads_it():
    for name in prompt_names():
        assert _read(str(prompts_folder() / f"{name}.md")) == prompt(name).text, name


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--k", "200"], "fewer than sink 4 + K 200 + recent 6; --k 34 or less makes the run sparse, e.g. --k 8"),
        (["--k", "200", "--json"], "--k 34 or less"),
        (["--k", "7", "--method", "sfi:budget=90"], "sink 4 + K 80 + recent 6; a budget of 44 or less"),
        (["--k", "5", "--recent", "70"], "a longer prompt or a smaller --recent makes the run sparse"),
        (["--k", "34"], None),
        (["--preset", "dense"], None),
        (["--method", "dense"], None),
        (["--k", "200", "--method", "streaming"], "--k 34 or less"),
    ],
    ids=str,
)
def test_a_run_in_which_nothing_could_be_selected_says_what_would(
    tmp_path, on_tiny, tiny_lab, capsys, arguments, advice
):
    ids = tiny_lab.tokenizer("The river was high. " * 12)["input_ids"][:44]
    (tmp_path / "p").write_text(tiny_lab.tokenizer.decode(ids), encoding="utf-8")
    length = len(tiny_lab.tokenizer((tmp_path / "p").read_text(encoding="utf-8"))["input_ids"])
    assert length == 44
    assert generate(tmp_path / "p", "--recent", "6", *arguments) == 0
    err = capsys.readouterr().err
    if advice is None:
        assert "nothing was selected" not in err
    else:
        line = next(line for line in err.splitlines() if line.startswith("nothing was selected"))
        assert "the prompt's 44 tokens" in line
        assert advice in line


def test_one_slow_step_is_singular(prompt_file, on_tiny, capsys):
    assert generate(prompt_file, *SPARSE, "--trigger", "never", "--t-max", "0") == 0
    err = capsys.readouterr().err
    assert "12 tokens after" in err
    assert "1 slow step {'first': 1}" in err
    assert generate(prompt_file, *SPARSE, "--max-new-tokens", "1") == 0
    assert "1 token after" in capsys.readouterr().err


def test_standard_input_is_a_prompt(prompt_file, on_tiny, capsys, monkeypatch):
    import io

    generate(prompt_file, "--json")
    want = json.loads(capsys.readouterr().out)["token_ids"]
    monkeypatch.setattr("sys.stdin", io.StringIO(prompt_file.read_text(encoding="utf-8")))
    assert generate("-", "--json") == 0
    assert json.loads(capsys.readouterr().out)["token_ids"] == want


def test_the_real_command_on_the_real_model(tmp_path):
    (tmp_path / "p.txt").write_text("The capital of France is", encoding="utf-8")
    done = subprocess.run(
        [COMMAND, "generate", "--prompt-file", "p.txt", "--max-new-tokens", "4", "--preset", "released", "--json"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) >= KEYS
    assert "Paris" in found["text"]
    assert found["reasons"] == {"nothing_to_select": 3}
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "p.txt"], "nothing is written unless asked for"


def test_an_interrupt_prints_what_was_made(prompt_file, on_tiny, tiny_lab, capsys):
    count = iter(range(100))

    def interrupt(*_):
        if next(count) == 5:
            raise KeyboardInterrupt

    handle = tiny_lab.model.model.layers[0].register_forward_hook(interrupt)
    try:
        assert generate(prompt_file, "--json") == 0
    finally:
        handle.remove()
    found = json.loads(capsys.readouterr().out)
    assert found["stop_reason"] == "interrupted"
    assert len(found["token_ids"]) == 5
