"""What is wrong is said in one line and with exit code 2, before the model is loaded where that can be."""

import pytest

from command_line import SPARSE, refused


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
    assert sentence in refused(capsys, "generate", "--prompt-file", prompt_file, *SPARSE, "--method", method)


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
        (["--record", "support", "--record-layers", "all"], "--record-layers takes layer numbers"),
        (["--top-p", "0.9"], "--top-p only means something together with --temperature"),
        (["--sample-temperature", "0.7"], "--sample-temperature"),
        (["--tau", "0"], "setting temperature = 0"),
        (
            ["--qk-layers", "1", "--trace", "t"],
            "--qk-layers needs --record support+qk or audit+qk; this run's record is support",
        ),
        (["--qk-layers", "1", "--record", "audit"], "this run's record is audit"),
        (["--qk-layers", "1"], "this run's record is off"),
        (["--record-layers", "1"], "--record-layers needs a recording, e.g. --record support"),
        (["--trace", "t", "--record", "off"], "--trace needs a recording"),
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
        (["--temperature", "0"], "temperature"),
        (["--temperature", "1", "--top-p", "3"], "top_p"),
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
