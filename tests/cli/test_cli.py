"""The settings' options, and the commands beside `generate`."""

import json

import polars as pl
import pytest

from command_line import refused
from sfi_lab import Settings
from sfi_lab.cli import main, parser
from sfi_lab.cli.options import settings_from
from sfi_lab.settings import FIELDS

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
    option = "tau" if name == "temperature" else name.replace("_", "-")
    changed = settings_of("--" + option, ANOTHER[name])
    assert set(changed.diff(Settings.paper())) == {name}
    text = {"enders": ".\n", "lam_clip": (0.35, 0.25)}.get(name, ANOTHER[name])
    value = getattr(changed, name)
    assert value == (type(value)(text) if not isinstance(value, tuple) else text)


@pytest.mark.parametrize("command", [["study", "fidelity"], ["evaluate"]])
def test_temperature_is_samplings_and_no_setting(command, capsys):
    """A command that doesn't sample has no --temperature, rather than one that means another thing."""
    assert "--temperature" in refused(capsys, *command, "-o", "folder", "--temperature", "0.7")
    assert settings_from(parser().parse_args([*command, "-o", "folder", "--tau", "0.7"])).temperature == 0.7


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


def test_trace_info_leaves_out_what_a_recording_does_not_have(tiny_lab, prompt_file, tmp_path, capsys):
    """Recordings made before a column existed, as data/traces/demo."""
    tiny_lab.generate(
        prompt_file.read_text(encoding="utf-8"), Settings(k=5, recent=6), 9, record="support", trace=tmp_path / "t"
    )
    main(["trace", "info", str(tmp_path / "t")])
    assert "bytes kept" in capsys.readouterr().out
    for part in (tmp_path / "t" / "steps").glob("*.parquet"):
        pl.read_parquet(part).drop("bytes_kept").write_parquet(part)
    assert main(["trace", "info", str(tmp_path / "t")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("slow steps") for line in lines)
    assert not any(line.startswith("bytes kept") for line in lines), lines


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
