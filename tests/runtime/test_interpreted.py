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
import torch
torch.set_num_threads(1)
from conftest import make_lab
from runtime_cases import FULL, engine, periodic, prompts
from sfi_lab.runtime.ops import best_token, embed, linear

lab = make_lab("qwen3", **FULL["qwen3"])
settings = periodic(k=4, recent=4, period=3)
texts = prompts(lab, (19, 5))
want = engine(lab, settings, 2, 32, backend="reference").generate(texts, 7)
found = engine(lab, settings, 2, 32, backend="triton").generate(texts, 7)
assert "period" in want.reasons[0] and "" in want.reasons[0]
assert found.tokens == want.tokens and found.reasons == want.reasons, (found, want)

torch.manual_seed(0)
for rows, k, n, gated, bias in ((1, 200, 33, True, False), (3, 72, 40, False, True), (17, 130, 64, True, True)):
    table, norm, after = torch.randn(50, k), torch.rand(k) + 0.5, torch.rand(n) + 0.5
    w, last = torch.randn(n * (1 + gated), k) / k**0.5, torch.randn(30, n)
    given = dict(bias=torch.randn(len(w)) if bias else None, residual=torch.randn(rows, n), gated=gated, next_norm=after)
    tokens = torch.randint(0, 50, (rows,), dtype=torch.int32)
    a, b = (
        linear(linear(embed(tokens, table, norm, backend=x), w, backend=x, **given), last, backend=x) for x in ("triton", "reference")
    )
    assert torch.allclose(a, b, atol=1e-4, rtol=1e-4), (rows, k, n, float((a - b).abs().max()))
logits = torch.randn(3, 9001)
logits[1, 5000] = logits[1, 100] = 9.0
for chosen in (None, torch.tensor([5, 8000, 77], dtype=torch.int32)):
    (a, p), (b, q) = (best_token(logits, chosen, backend=x) for x in ("triton", "reference"))
    assert torch.equal(a, b) and torch.allclose(p, q, atol=1e-4), (a, b)
assert best_token(logits, backend="triton")[0][1] == 100, "of equal logits the lower id"

from sfi_lab.runtime.ops import advance
from sfi_lab.runtime.state import BatchState, Rules
from sfi_lab.settings import Settings
classes = torch.tensor([1, 2, 0, 2, 6], dtype=torch.int8)
for settings in (Settings.paper(sink=2, recent=4, k=6, t_max=7), Settings.released(sink=2, recent=4, k=6, min_gap=3, t_max=9, recent_mode="pinned")):
    rules = Rules.of(settings)
    states = [BatchState(3, torch.device("cpu"), 40, rules) for _ in range(2)]
    for state in states:
        state.length.copy_(torch.tensor([1, 9, 30]))
        state.fast_steps.fill_(-1)
    for step in range(45):
        token = torch.randint(0, 5 if step > 30 else 4, (3,), dtype=torch.int32)
        for state, backend in zip(states, ("triton", "reference")):
            advance(state, token, torch.zeros(3), classes, rules, backend=backend)
        assert torch.equal(states[0].table, states[1].table) and torch.equal(states[0].flags, states[1].flags), step
    assert torch.equal(states[0].history, states[1].history) and states[0].done.any()
print("equal")
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the kernels run compiled in the other tests")
def test_engine_and_operations_in_the_interpreter_equal_the_reference():
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), str(here.parent / "compat"), str(here.parent / "sentences")]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(paths=paths)], capture_output=True, text=True, env=environment, timeout=240
    )  # fmt: skip
    assert run.stdout.strip() == "equal", run.stderr[-2000:]
