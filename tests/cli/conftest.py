"""A prompt file, and the model that `sfi-lab generate` loads: the tiny one, or none at all."""

import pytest


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
