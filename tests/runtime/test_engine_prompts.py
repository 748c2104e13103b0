"""Reading prompts into pages: in chunks, behind what is cached, and with the mask said in two ways."""

import pytest
import torch

from runtime_cases import FULL, engine, moved, periodic, prompts
from sfi_lab.attention.arguments import AttentionArguments
from sfi_lab.attention.prefill import masked_attention
from sfi_lab.runtime import forward


@pytest.mark.parametrize(("n", "total", "heads"), [(5, 12, 4), (7, 7, 2), (1, 9, 4), (3, 40, 6)])
def test_without_a_mask_of_its_own_a_long_prompt_attends_as_with_one(monkeypatch, n, total, heads):
    monkeypatch.setattr(forward, "_SMALL_MASK", 0)
    torch.manual_seed(0)
    q, (k, v) = torch.randn(1, heads, n, 16), torch.randn(2, 1, 2, total, 16)
    found = forward.prompt_attention(q, k, v, AttentionArguments(0.3))
    want = masked_attention(q[0], k[0], v[0], None, 0.3)[None]
    assert (found - want).abs().max() < 1e-5


@pytest.mark.parametrize("chunk", [16, 33, 1000])
def test_chunks_fill_the_pages_alike(lab_of, chunk):
    lab = moved(lab_of("qwen3", **FULL["qwen3"]))
    (text,) = prompts(lab, (70,))
    whole, parts = engine(lab, periodic(), 1), engine(lab, periodic(), 1)
    want = whole.read(0, text)
    found, window = forward.read_prompt(lab.model, parts.cache, 0, text, 0, 3, chunk)
    assert (found - want).abs().max() < 1e-4
    assert all(q.shape[1] == 3 for q in window.values())
    for layer in range(lab.spec.n_layers):
        for name, a, b in zip("kv", whole.cache.rows(layer, 0, 70), parts.cache.rows(layer, 0, 70), strict=True):
            assert (a - b).abs().max() < 1e-5, f"{name} of layer {layer}"
        norms = whole.cache.rows(layer, 0, 70)[0].norm(dim=-1)
        assert (parts.cache.norms[layer][0, :, :70] - norms).abs().max() < 1e-5, f"key norms of layer {layer}"


def test_a_prompt_goes_on_behind_what_is_cached(lab_of):
    lab = moved(lab_of("llama", **FULL["llama"]))
    (text,) = prompts(lab, (60,))
    whole, turns = engine(lab, periodic(), 1), engine(lab, periodic(), 1)
    want = whole.read(0, text)
    turns.read(0, [*text[:40], 7, 8, 9])
    found = turns.read(0, text[40:], keep=40)
    assert turns.lengths == [60] and (found - want).abs().max() < 1e-4
