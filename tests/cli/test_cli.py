"""The command line: what lands on which stream, exit codes, and one line for everything that is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfi_lab import Settings, Trace
from sfi_lab.cli import main, parser
from sfi_lab.cli.options import settings_from
from sfi_lab.settings import FIELDS

KEYS = {"text", "token_ids", "prompt_tokens", "slow_steps", "reasons", "keys_read_share", "tokens_per_second", "trace"}
COMMAND = Path(sys.executable).with_name("sfi-lab")


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text(
        "The river was high. 今天下雨。 Nobody crossed it that day, and the ferry stayed at its rope.", encoding="utf-8"
    )
    return path


@pytest.fixture
def on_tiny(monkeypatch, tiny_lab):
    """`sfi-lab generate` loads the tiny model."""
    monkeypatch.setattr("sfi_lab.lab.load", lambda *_: tiny_lab)


@pytest.fixture
def never_loads(monkeypatch):
    def load(*_):
        raise AssertionError("the model was loaded for a command that could not work")

    monkeypatch.setattr("sfi_lab.lab.load", load)


def generate(prompt_file, *arguments):
    return main(["generate", "--prompt-file", str(prompt_file), "--max-new-tokens", "12", *map(str, arguments)])


SPARSE = ["--k", "5", "--recent", "6", "--sink", "2", "--t-max", "4"]


# generate ---------------------------------------------------------------------------------------------------------


def test_another_method_decodes_and_says_what_it_read_and_kept(prompt_file, on_tiny, capsys, tmp_path):
    assert generate(prompt_file, *SPARSE, "--method", "streaming", "--json", "--trace", tmp_path / "t") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "streaming" and found["slow_steps"] == 0
    steps = Trace.open(tmp_path / "t").steps.filter(Trace.open(tmp_path / "t").steps["route"] == "fast")
    assert steps["keys_read"].to_list() == [13.0] * 11
    assert found["bytes_kept"] == 13 * 3 * 2 * 2 * 8 * 4, (
        "13 positions, 3 layers, 2 KV heads, keys and values of 8 floats"
    )


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("snapvk", "did you mean snapkv"),
        ("streaming:window=4", "no parameter 'window=4'"),
        ("sfi:budget=7", "budget = 7 leaves nothing to select"),
        ("interval:every=0", "every = 0 is not allowed"),
    ],
)
def test_a_wrong_method_is_one_line_before_the_model_is_loaded(prompt_file, never_loads, capsys, method, sentence):
    assert generate(prompt_file, *SPARSE, "--method", method) == 2
    out, err = capsys.readouterr()
    assert not out and sentence in err and err.count("\n") == 1


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
    drawn = [
        run("--sample-temperature", "1.5", "--sample-top-p", "0.9", "--seed", seed)["token_ids"] for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
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


# what is wrong, in one line ---------------------------------------------------------------------------------------


def refused(capsys, *arguments):
    """Runs a command that must fail; its one line."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:  # argparse's own
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert err.startswith("sfi-lab")
    assert err.count("\n") == 1, f"more than a line: {err}"
    assert err.endswith("\n")
    return err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--k", "0"], "setting k = 0 is not allowed; allowed: a whole number ≥ 1"),
        (["--k", "many"], "setting k = 'many' is not allowed"),
        (["--k", "2.5"], "setting k = 2.5"),
        (["--k", "inf"], "setting k = inf"),
        (["--lam", "2"], "setting lam = 2"),
        (["--lam", "Auto"], "setting lam = 'Auto'"),
        (["--lam-clip", "0.1,0.2,0.3"], "setting lam_clip"),
        (["--lam-clip", "0.1,"], "setting lam_clip"),
        (["--trigger", "whenever"], "setting trigger = 'whenever' is not allowed; allowed: sentence | period"),
        (["--enders", ""], "setting enders"),
        (["--settings", "nowhere.toml"], "settings file nowhere.toml can't be read"),
        (["--preset", "papyrus"], "papyrus"),
        (["--kk", "3"], "--kk"),
        (["--max-new-tokens", "some"], "--max-new-tokens"),
        (["--record-layers", "all"], "--record-layers takes layer numbers"),
        (["--sample-top-p", "0.9"], "--sample-top-p only means something together"),
    ],
    ids=str,
)
def test_bad_arguments_before_the_model_is_loaded(prompt_file, never_loads, capsys, arguments, message):
    assert message in refused(capsys, "generate", "--prompt-file", prompt_file, *arguments)


def test_bad_prompt_files(tmp_path, never_loads, capsys):
    assert "nowhere.txt does not exist" in refused(capsys, "generate", "--prompt-file", tmp_path / "nowhere.txt")
    assert "can't be read" in refused(capsys, "generate", "--prompt-file", tmp_path)
    for content, message in [(b"", "is empty"), (b" \n\t\n", "is empty"), (b"\xff\xfe\x00", "is not UTF-8 text")]:
        (tmp_path / "p").write_bytes(content)
        assert message in refused(capsys, "generate", "--prompt-file", tmp_path / "p")
    assert "--prompt-file" in refused(capsys, "generate")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-new-tokens", "0"], "max_new_tokens = 0"),
        (["--record", "everything"], "record = 'everything' is not known; allowed: off, support"),
        (["--trace", "{tmp}/full"], "exists and is not empty"),
        (["--trace", "{tmp}/full/file"], "is a file"),
        (["--trace", "{tmp}/full/file/below"], "can't be made"),
        (["--record", "support", "--record-layers", "7", "--trace", "{tmp}/t"], "record_layers = [7] is not allowed"),
        (["--sample-temperature", "0"], "temperature"),
        (["--sample-temperature", "1", "--sample-top-p", "3"], "top_p"),
        (["--stop", ""], "stop string ''"),
    ],
    ids=str,
)
def test_what_only_the_model_can_tell(prompt_file, on_tiny, capsys, tmp_path, arguments, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    arguments = [a.replace("{tmp}", str(tmp_path)) for a in arguments]
    assert message in refused(capsys, "generate", "--prompt-file", prompt_file, *arguments)


def test_a_prompt_longer_than_the_context(tmp_path, on_tiny, capsys):
    (tmp_path / "long").write_text("river " * 600)
    line = refused(capsys, "generate", "--prompt-file", tmp_path / "long")
    assert "the model's context 512" in line


def test_an_unknown_model(prompt_file, capsys):
    line = refused(capsys, "generate", "--prompt-file", prompt_file, "--model", "nonesuch")
    assert "Model 'nonesuch' is not known. Known names: smollm2-135m" in line
    assert "Device 'abacus' is not known" in refused(
        capsys, "generate", "--prompt-file", prompt_file, "--device", "abacus"
    )


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


# settings ---------------------------------------------------------------------------------------------------------


def settings_of(*arguments):
    return settings_from(parser().parse_args(["generate", "--prompt-file", "p", *arguments]))


ANOTHER = {
    "sink": "7", "recent": "99", "k": "55", "t_max": "3", "trigger": "drift", "period": "8", "seed": "5", "drift_threshold": "0.5",
    "enders": ".\\n", "fire_on": "next_sentence", "min_gap": "4", "cooldown": "2", "alpha": "0.7", "gamma": "0.1", "beta": "0.2",
    "power": "1.1", "eta": "0.3", "norm_weight": "0.4", "position_weight": "0.6", "lam": "0.1", "lam_clip": "0.35,0.25",
    "nms_radius": "5", "nms_strength": "0.9", "exclusivity": "0.8", "temperature": "1.5", "recent_mode": "pinned",
    "prefill_window": "3", "layer_groups": "2", "rectify": "true",
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_an_option(name):
    changed = settings_of("--" + name.replace("_", "-"), ANOTHER[name])
    assert set(changed.diff(Settings.paper())) == {name}
    text = {"enders": ".\n", "lam_clip": (0.35, 0.25)}.get(name, ANOTHER[name])
    value = getattr(changed, name)
    assert value == (type(value)(text) if not isinstance(value, tuple) else text)


def test_preset_then_file_then_single_fields(tmp_path):
    (tmp_path / "s.toml").write_text('k = 10\nt_max = 11\nlam = "auto"\n')
    made = settings_of("--preset", "released", "--settings", str(tmp_path / "s.toml"), "--t-max", "12")
    assert made == Settings.released(k=10, t_max=12)
    assert settings_of("--lam", "auto") == Settings.paper()
    assert settings_of("--lam-clip", "0.1").lam_clip == 0.1


# the other commands -----------------------------------------------------------------------------------------------


def test_trace_info(tiny_lab, prompt_file, tmp_path, capsys):
    result = tiny_lab.generate(
        prompt_file.read_text(encoding="utf-8"), Settings(k=5, recent=6), 9, record="support", trace=tmp_path / "t"
    )
    assert main(["trace", "info", str(tmp_path / "t"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == result.trace.info()
    assert main(["trace", "info", str(tmp_path / "t")]) == 0
    lines = capsys.readouterr().out
    assert "slow steps" in lines
    assert "Settings.paper(recent=6, k=5)" in lines


def test_trace_info_of_what_is_no_trace(tmp_path, capsys):
    assert "there is no trace folder" in refused(capsys, "trace", "info", tmp_path / "none")
    assert "is not an sfi_lab trace" in refused(capsys, "trace", "info", tmp_path)


def test_doctor_says_what_is_there(capsys):
    assert main(["doctor"]) == 0
    words = capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for name in ("python", "torch", "transformers", "triton", "device", "decode path", "kernels", "default model"):
        assert found[name], name
        assert found[name] in words


def test_lab_of_a_missing_notebook(capsys):
    assert "nowhere.ipynb does not exist" in refused(capsys, "lab", "nowhere.ipynb")


def test_version_and_help(capsys):
    for arguments, text in (
        (["--version"], "sfi-lab 0."),
        (["generate", "--help"], "--nms-radius"),
        (["--help"], "doctor"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        assert text in capsys.readouterr().out
