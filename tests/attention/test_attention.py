"""Dense, sparse and prompt attention against softmax written out in float64, and the arguments a model hands over."""

import itertools
import math

import pytest
import torch

from sfi_lab import SfiError
from sfi_lab.attention import AttentionRouter, dense_decode, masked_attention, sparse_decode
from sfi_lab.attention.arguments import read_arguments
from sfi_lab.memory import FullCache, PackedMemory


def literal(q, k, v, allowed, scaling, softcap=None, sinks=None):
    """q [H_q, n, D], k, v [H_kv, T, D], allowed [n, T] bool, sinks [H_q] -> float64 [H_q, n, D_v], loop by loop."""
    heads, n, _ = q.shape
    group = heads // k.shape[0]
    out = torch.zeros(heads, n, v.shape[-1], dtype=torch.float64)
    for h in range(heads):
        for i in range(n):
            scores = [float(q[h, i].double() @ k[h // group, j].double()) * scaling for j in range(k.shape[1])]
            if softcap is not None:
                scores = [softcap * math.tanh(x / softcap) for x in scores]
            weights = [math.exp(x) if allowed[i, j] else 0.0 for j, x in enumerate(scores)]
            total = sum(weights) + (math.exp(float(sinks[h])) if sinks is not None else 0.0)
            for j, w in enumerate(weights):
                out[h, i] += w / total * v[h // group, j].double()
    return out


def tensors(heads, kv_heads, n, total, dim=6, value_dim=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(heads, n, dim, generator=g), torch.randn(kv_heads, total, dim, generator=g),
            torch.randn(kv_heads, total, value_dim, generator=g), torch.randn(heads, generator=g))  # fmt: skip


MASKS = ("none", "bool window", "additive window")
KINDS = {"plain": (None, False), "softcap": (0.7, False), "sinks": (None, True), "both": (0.7, True)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("heads", "kv_heads", "total"), [(1, 1, 1), (6, 2, 9), (4, 4, 17), (3, 1, 2)])
def test_dense_decode(kind, heads, kv_heads, total):
    softcap, with_sinks = KINDS[kind]
    q, k, v, sinks = tensors(heads, kv_heads, 1, total, value_dim=5)
    group = heads // kv_heads
    own = sinks if with_sinks else None
    want = literal(q, k, v, torch.ones(1, total, dtype=torch.bool), 0.3, softcap, own)
    out, weights, logits = dense_decode(
        q.view(kv_heads, group, -1), k, v, 0.3, softcap, None if own is None else own.view(kv_heads, group)
    )
    torch.testing.assert_close(out.reshape(heads, 1, -1).double(), want, atol=1e-5, rtol=1e-5)
    assert weights.shape == logits.shape == (kv_heads, group, total)
    totals = weights.sum(-1)
    assert bool((totals < 1).all()) if with_sinks else torch.allclose(totals, torch.ones_like(totals))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sink", "k_selected", "recent"), [(0, 1, 1), (4, 3, 5), (2, 6, 1)])
def test_sparse_decode_is_masked_dense(kind, sink, k_selected, recent):
    softcap, with_sinks = KINDS[kind]
    heads, kv_heads, total = 6, 2, 25
    q, k, v, sinks = tensors(heads, kv_heads, 1, total)
    own = sinks if with_sinks else None
    cache = FullCache()
    cache.append(k, v)
    generator = torch.Generator().manual_seed(3)
    candidates = range(sink, total - recent)
    selected = torch.stack(
        [
            torch.randperm(len(candidates), generator=generator)[:k_selected].sort().values + sink
            for _ in range(kv_heads)
        ]
    )
    packed = PackedMemory.pack(cache, sink, selected)
    start = total - recent
    out, weights = sparse_decode(
        q.view(kv_heads, 3, -1),
        packed,
        k[:, start:],
        v[:, start:],
        0.3,
        softcap,
        None if own is None else own.view(kv_heads, 3),
    )
    assert weights.shape == (kv_heads, 3, sink + k_selected + recent)
    for head in range(kv_heads):
        allowed = torch.zeros(1, total, dtype=torch.bool)
        allowed[0, :sink] = allowed[0, start:] = True
        allowed[0, selected[head]] = True
        rows = slice(head * 3, head * 3 + 3)
        want = literal(
            q[rows], k[head : head + 1], v[head : head + 1], allowed, 0.3, softcap, None if own is None else own[rows]
        )
        torch.testing.assert_close(out[head].double(), want[:, 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "total", "masked"),
    [
        (300, 300, "none"),
        *itertools.product([5], [5], MASKS),
        *itertools.product([3], [9], MASKS),
        *itertools.product([1], [7], MASKS),
    ],
)
def test_prompt_attention(kind, n, total, masked):
    softcap, with_sinks = KINDS[kind]
    q, k, v, sinks = tensors(4, 2, n, total)
    own = sinks if with_sinks else None
    rows, columns = torch.arange(total - n, total)[:, None], torch.arange(total)[None]
    allowed = columns <= rows
    mask = None
    if masked != "none":
        allowed = allowed & (columns > rows - 3)
        mask = allowed if masked == "bool window" else torch.zeros(n, total).masked_fill(~allowed, -torch.inf)
    out = masked_attention(q, k, v, mask, 0.4, softcap, own)
    check = slice(None) if n < 100 else slice(n - 3, n)  # the loops are slow
    want = literal(q[:, check], k, v, allowed[check], 0.4, softcap, own)
    torch.testing.assert_close(out[:, check].double(), want, atol=1e-5, rtol=1e-5)


# arguments --------------------------------------------------------------------------------------------------------


def test_known_arguments_are_honoured_and_harmless_ones_pass():
    sinks = torch.ones(3)
    read = read_arguments("M", 16, None, {"softcap": 50.0, "s_aux": sinks, "dropout": 0.0, "sliding_window": 8, "is_causal": True,
                                          "position_ids": torch.arange(3), "new_thing": None})  # fmt: skip
    assert (read.scaling, read.softcap) == (0.25, 50.0)
    assert read.sink_logits is sinks
    assert read_arguments("M", 16, 0.7, {}).scaling == 0.7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("new_thing", 3),
        ("dropout", 0.1),
        ("position_bias", torch.zeros(1)),
        ("is_causal", False),
        ("output_attentions", True),
    ],
)
def test_other_arguments_are_refused_by_name(name, value):
    with pytest.raises(SfiError, match=f"ThatModel hands its attention the argument '{name}'"):
        read_arguments("ThatModel", 16, None, {name: value})


# the router without a run ------------------------------------------------------------------------------------------


class Module:
    layer_idx = 0


@pytest.mark.parametrize("batch", [1, 3])
def test_a_callers_own_use_gets_ordinary_attention_for_every_row_of_a_batch(batch):
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(batch, heads, 7, 6, generator=g) for heads in (4, 2, 2))
    out, weights = AttentionRouter("M")(Module(), q, k, v, scaling=0.4)
    assert weights is None
    assert out.shape == (batch, 7, 4, 6)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4, enable_gqa=True)
    torch.testing.assert_close(out.transpose(1, 2), want)
    padding = torch.ones(batch, 1, 7, 7, dtype=torch.bool).tril()
    padding[-1, :, 2:, :2] = False  # left padding of one row
    out, _ = AttentionRouter("M")(Module(), q, k, v, attention_mask=padding, scaling=0.4)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=padding, scale=0.4, enable_gqa=True)
    torch.testing.assert_close(out.transpose(1, 2), want)
