"""Runs commands of `sfi-lab` in this process: those that work and those that must be refused in one line."""

from sfi_lab.cli import main

SPARSE = ["--k", "5", "--recent", "6", "--sink", "2", "--t-max", "4"]


def generate(prompt_file, *arguments):
    return main(["generate", "--prompt-file", str(prompt_file), "--max-new-tokens", "12", *map(str, arguments)])


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
