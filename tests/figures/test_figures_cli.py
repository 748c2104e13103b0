"""`sfi-lab figures`: what it prints, and that missing data is no error."""

import json
from pathlib import Path

from sfi_lab.cli import main

DEMO = Path(__file__).parents[2] / "data" / "traces" / "demo"


def test_command(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["figures", str(DEMO), "-o", str(out), "--only", "lambda_heads,gain", "--format", "svg"]) == 0
    printed = capsys.readouterr().out
    assert "made     lambda_heads" in printed
    assert "missing  gain" in printed
    assert "sfi-lab bench decode" in printed
    assert sorted(p.name for p in out.iterdir()) == ["captions.md", "lambda_heads.svg", "manifest.json"]
    assert json.loads((out / "manifest.json").read_text())["command"].startswith("sfi-lab figures ")


def test_json(tmp_path, capsys):
    assert (
        main(
            [
                "figures",
                str(DEMO),
                "-o",
                str(tmp_path),
                "--only",
                "step_times",
                "--only",
                "pipeline",
                "--format",
                "svg",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["made"] == {"step_times": ["step_times.svg"]}
    assert found["missing"]["pipeline"].startswith("sfi-lab bench pipeline")


def test_list(capsys):
    assert main(["figures", "--list"]) == 0
    assert "lambda_heads   λ by head" in capsys.readouterr().out


def test_bad_input_is_a_sentence(tmp_path, capsys):
    assert main(["figures", "-o", str(tmp_path)]) == 2
    assert main(["figures", str(tmp_path / "none"), "-o", str(tmp_path)]) == 2
    assert main(["figures", str(DEMO), "-o", str(tmp_path), "--only", "nothing"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.startswith("sfi-lab: ") for line in said] == [True] * 3
    assert "there are: maps" in said[2]
