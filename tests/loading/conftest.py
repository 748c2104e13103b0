"""The tiny models of tests/compat serve this room's tests too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "compat"))

import pytest

from sfi_lab.loading import Loaded, load_model


@pytest.fixture(scope="session")
def default_model() -> Loaded:
    """The bundled model, from the user's cache; the first use of a machine fetches it."""
    return load_model(device="cpu", progress=False)


@pytest.fixture(scope="session")
def default_tokenizer(default_model):
    return default_model.tokenizer
