"""`sfi-lab study`: what is wrong is said before the model is loaded; the arguments reach the study."""

import argparse
import json

import pytest

import sfi_lab.lab
import sfi_lab.studies
from sfi_lab.cli import study
from sfi_lab.errors import SfiError
from sfi_lab.settings import Settings


def parsed(*words):
    top = argparse.ArgumentParser()
    study.add(top.add_subparsers(dest="command", required=True))
    return top.parse_args(["study", *words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("controls", "--preset", "dense", "-o", "x"), "the dense preset leaves nothing to compare"),
        (("tune", "--new-tokens", "1", "-o", "x"), "--new-tokens is a whole number from 2; got 1"),
        (("stability", "--k", "many", "-o", "x"), "setting k = 'many' is not allowed"),
    ],
)
def test_bad_arguments(monkeypatch, words, message):
    monkeypatch.setattr(
        sfi_lab.lab, "load", lambda *_: pytest.fail("the model was loaded before the arguments were checked")
    )
    arguments = parsed(*words)
    with pytest.raises(SfiError, match=message):
        arguments.run(arguments)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("")
    arguments = parsed("controls", "-o", str(tmp_path / "x"))
    with pytest.raises(SfiError, match="is a file; -o takes a folder"):
        arguments.run(arguments)


@pytest.mark.parametrize("kind", ["stability", "controls", "fidelity", "tune"])
def test_arguments_reach_the_study_and_the_summary_is_one_json_object(monkeypatch, capsys, tmp_path, kind):
    seen = {}

    def run_study(what, lab, settings, out, **options):
        seen.update(what=what, lab=lab, settings=settings, **options)
        return {"out": str(out)}

    monkeypatch.setattr(sfi_lab.lab, "load", lambda *names: names)
    monkeypatch.setattr(sfi_lab.studies, "run_study", run_study)
    arguments = parsed(kind, "-o", str(tmp_path), "--json", "--prompts", "pydoc:2", "--k", "77", "--new-tokens", "9")
    assert arguments.run(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(tmp_path)}
    assert seen["what"] == kind
    assert seen["settings"] == Settings.paper(k=77, recent=64)
    assert (seen["prompts"], seen["new_tokens"]) == ("pydoc:2", 9)
    assert ("n" in seen, "target" in seen) == (kind == "stability", kind == "tune")
