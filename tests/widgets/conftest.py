import pytest

from sfi_lab import Trace
from sfi_widgets import Session
from synthetic_trace import write_trace


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    return Trace.open(write_trace(tmp_path_factory.mktemp("trace") / "small"))


@pytest.fixture
def session(trace):
    return Session(trace)
