"""top_k against a stable sort."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, assert_equal, ints, poisoned


def expected_top_k(scores, sizes, k, first=0):
    return sfi_kernels.top_k(scores.cpu(), ints(sizes).cpu(), k, first=first, backend="reference")


def kinds(kind, batch, heads, width):
    x = torch.randn(batch, heads, width)
    if kind == "equal":
        return torch.full_like(x, 1.5)
    if kind == "few values":
        return torch.randint(-2, 3, x.shape).float() / 2
    if kind == "infinities":
        return torch.where(torch.rand(x.shape) < 0.7, float("-inf"), x)
    if kind == "both infinities":  # the widest key range, and a threshold among the largest finite values
        x = torch.where(torch.rand(x.shape) < 0.01, float("inf"), x * 1e37)
        return torch.where(torch.rand(x.shape) < 0.3, float("-inf"), x)
    if kind == "zeros":
        return torch.where(torch.rand(x.shape) < 0.5, -0.0, 0.0) * torch.ones_like(x)
    if kind == "close":  # differ in the last bits only
        return (1.0 + torch.randint(0, 200, x.shape) * 2.0**-23).float()
    return x * 1e3


# kind, J of each sequence, H_kv, K
CASES = [
    ("random", [1, 15, 17, 0], 2, 16),
    ("random", [1023], 3, 64),
    ("random", [9001, 4096, 4097], 1, 512),  # rows of 9,008: the wide loads
    ("random", [12000], 1, 8192),
    ("equal", [5000, 3], 2, 100),
    ("few values", [9000], 1, 2048),
    ("infinities", [5000], 2, 3000),
    ("zeros", [300], 2, 100),
    ("close", [4500], 2, 700),
    ("both infinities", [3000], 2, 40),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-J{c[1]}-K{c[3]}")
def test_top_k_equals_the_stable_sort(case):
    kind, sizes, heads, k = case
    scores = kinds(kind, len(sizes), heads, max(sizes) + 7)
    for b, n in enumerate(sizes):
        scores[b, :, n:] = float("inf")  # would win if it were read
    room = poisoned(len(sizes) + 1, heads, k, dtype=torch.int32)
    got = sfi_kernels.top_k(scores.to(DEVICE), ints(sizes), k, first=4, out=room[:-1])
    assert_equal(got, expected_top_k(scores, sizes, k, first=4), f"positions, {kind}")
    assert_equal(room[-1], torch.full_like(room[-1], -77), "what lies behind the output")


def test_top_k_in_chunks_of_chunks():
    """More chunks than one block of the counting table holds (16 of 4,096)."""
    sizes = [70_000]
    scores = kinds("random", 1, 1, sizes[0]).to(DEVICE)
    assert_equal(sfi_kernels.top_k(scores, ints(sizes), 2000), expected_top_k(scores, sizes, 2000), "positions")


def test_top_k_leaves_inactive_rows_alone():
    scores = torch.randn(2, 2, 50, device=DEVICE)
    out = poisoned(2, 2, 8, dtype=torch.int32)
    sfi_kernels.top_k(scores, ints([50, 50]), 8, active=ints([0, 1]), out=out)
    assert_equal(out[0], torch.full_like(out[0], -77), "the inactive sequence")
    assert_equal(out[1], expected_top_k(scores, [50, 50], 8)[1], "the active sequence")


def test_top_k_names_bad_input():
    n = torch.ones(1, dtype=torch.int32)
    with pytest.raises(ValueError, match="k is 0; it must be 1 or more"):
        sfi_kernels.top_k(torch.zeros(1, 1, 4), n, 0)
    with pytest.raises(ValueError, match=r"scores has dtype torch\.float16"):
        sfi_kernels.top_k(torch.zeros(1, 1, 4, dtype=torch.float16), n, 2)
