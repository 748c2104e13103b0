"""The full cache never loses or moves a position; the packed memory holds what it says."""

import pytest
import torch

from sfi_lab.memory import FullCache, PackedMemory, recent_start


def filled(n, heads=2, dim=3, value_dim=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(heads, n, dim, generator=generator), torch.randn(heads, n, value_dim, generator=generator)


@pytest.mark.parametrize("pieces", [[1] * 40, [33, 1, 1, 90], [5, 300, 2, 700]], ids=str)
def test_every_position_stays_where_it_was_put(pieces):
    k, v = filled(sum(pieces))
    cache, start = FullCache(capacity=4), 0
    for n in pieces:
        cache.append(k[:, start : start + n], v[:, start : start + n])
        start += n
        assert cache.length == start
        assert torch.equal(cache.k, k[:, :start])
        assert torch.equal(cache.v, v[:, :start])
    assert cache.k.shape == (2, start, 3)
    assert cache.v.shape == (2, start, 5)


def test_norms_follow_appends_growth_and_cuts():
    k, v = filled(60)
    other, _ = filled(60, seed=1)
    cache = FullCache(capacity=8)
    cache.append(k[:, :10], v[:, :10])
    torch.testing.assert_close(cache.norms(2, 9), k[:, 2:9].norm(dim=-1))
    cache.append(k[:, 10:40], v[:, 10:40])  # grows
    torch.testing.assert_close(cache.norms(0, 40), k[:, :40].norm(dim=-1))
    cache.crop(20)
    cache.append(other[:, :15], v[:, :15])  # other keys at positions whose norms were known
    want = torch.cat([k[:, :20], other[:, :15]], dim=1).norm(dim=-1)
    torch.testing.assert_close(cache.norms(0, 35), want)
    assert cache.norms(0, 35).dtype == torch.float32


def test_norms_of_half_precision_keys_are_float32():
    cache = FullCache()
    k = torch.full((1, 3, 4), 300.0, dtype=torch.float16)
    cache.append(k, k)
    assert cache.norms(0, 3).tolist() == [[600.0] * 3], "the squares overflow in half precision"


def test_a_copy_is_independent():
    k, v = filled(12)
    cache = FullCache(capacity=2)
    assert FullCache().copy().length == 0
    cache.append(k[:, :6], v[:, :6])
    twin = cache.copy()
    twin.append(k[:, 6:], v[:, 6:])
    cache.append(v[:, :6, :3], v[:, :6])
    assert torch.equal(twin.k, k)
    assert (cache.length, twin.length) == (12, 12)
    assert not torch.equal(cache.k, twin.k)


def test_crop_never_grows():
    k, v = filled(5)
    cache = FullCache()
    cache.append(k, v)
    cache.crop(9)
    assert cache.length == 5
    cache.crop(0)
    assert cache.length == 0


@pytest.mark.parametrize("sink", [0, 1, 4])
def test_packed_holds_sink_and_each_heads_own_selection(sink):
    k, v = filled(20)
    cache = FullCache()
    cache.append(k, v)
    selected = torch.tensor([[sink, 9, 11], [10, 12, 15]])
    packed = PackedMemory.pack(cache, sink, selected)
    for head in range(2):
        want = [*range(sink), *selected[head].tolist()]
        assert packed.positions[head].tolist() == want
        assert torch.equal(packed.k[head], k[head, want])
        assert torch.equal(packed.v[head], v[head, want])
    assert packed.k.is_contiguous()
    assert packed.v.is_contiguous()
    cache.crop(0)
    cache.append(torch.zeros_like(k), torch.zeros_like(v))
    assert torch.equal(packed.k[0, -1], k[0, 11]), "packed memory is a copy"


@pytest.mark.parametrize(
    ("length", "sink", "recent", "want"),
    [(100, 4, 16, 84), (10, 4, 16, 4), (3, 4, 16, 4), (20, 4, 16, 4), (21, 4, 16, 5), (5, 0, 1, 4)],
)
def test_the_window_starts_behind_the_sink(length, sink, recent, want):
    assert recent_start(length, sink, recent) == want
