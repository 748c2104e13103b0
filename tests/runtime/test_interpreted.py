"""The engine with every kernel in Triton's interpreter, in a process of its own (the interpreter is asked for at import)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = """
import sys
sys.path[:0] = {paths!r}
import numpy as np
np.seterr(all="ignore")
from conftest import make_lab
from runtime_cases import FULL, engine, periodic, prompts
lab = make_lab("qwen3", **FULL["qwen3"])
texts = prompts(lab, (37, 9))
want = engine(lab, periodic(), 2, 64, backend="reference").generate(texts, 10)
found = engine(lab, periodic(), 2, 64).generate(texts, 10)
forced = engine(lab, periodic(), 2, 64, backend="triton").generate(texts, 10)
assert "period" in want.reasons[0] and "" in want.reasons[0]
for other in (found, forced):
    assert other.tokens == want.tokens and other.reasons == want.reasons, (other, want)
print("equal")
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels run compiled in the other tests")
def test_engine_in_the_interpreter_equals_the_reference_kernels():
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), str(here.parent / "compat"), str(here.parent / "sentences")]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(paths=paths)], capture_output=True, text=True, env=environment, timeout=240
    )  # fmt: skip
    assert run.stdout.strip() == "equal", run.stderr[-2000:]
