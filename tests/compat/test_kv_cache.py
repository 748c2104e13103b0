"""What a model may ask of our cache base, and what it must be told is impossible."""

import pytest
import torch
from transformers import Cache

from plain_attention import ListCache
from sfi_lab.compat import KVCache
from sfi_lab.errors import SfiError


def test_lengths_and_mask_sizes_follow_what_was_appended():
    cache = ListCache(3)
    assert isinstance(cache, Cache)
    assert (len(cache), cache.get_seq_length(), cache.get_mask_sizes(5, 1)) == (3, 0, (5, 0))
    keys, values = torch.randn(2, 1, 2, 4, 8)
    cache.update(keys, values, 1)
    assert (cache.get_seq_length(1), cache.get_query_offset(1), cache.get_seq_length(0)) == (4, 4, 0)
    assert cache.get_mask_sizes(3, 1) == (7, 0)
    got, _ = cache.update(keys, values, 1, {"cos": None}, anything=1)
    torch.testing.assert_close(got, torch.cat([keys, keys], dim=2))


def test_flags_have_one_entry_a_layer():
    cache = ListCache(3)
    assert cache.is_sliding == cache.is_linear == cache.is_dummy == [False] * 3
    assert not cache.is_compileable


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("reset", ()), ("crop", (-1,)), ("reorder_cache", (None,)), ("batch_repeat_interleave", (2,)), ("batch_select_indices", (None,))],
)  # fmt: skip
def test_what_would_silently_do_nothing_is_refused(method, arguments):
    with pytest.raises(SfiError, match="ListCache does not support"):
        getattr(ListCache(1), method)(*arguments)


def test_the_base_stores_nothing_itself():
    with pytest.raises(NotImplementedError):
        KVCache(1).update(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), 0)
