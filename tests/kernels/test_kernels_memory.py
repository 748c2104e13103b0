"""pack_memory and write_cache against their references: plain copies, so exact."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, assert_close, assert_equal, double, ints, paged_cache, poisoned

# lengths, chosen a sequence (before the -1), H_kv, D, page_size, sink, K, dtype
PACK_CASES = [
    ([300, 40], [50, 7], 2, 64, 16, 4, 50, torch.float32),
    ([2, 0, 100], [0, 0, 33], 1, 80, 64, 4, 40, torch.bfloat16),
    ([150], [100], 3, 256, 16, 0, 100, torch.float16),
]


@pytest.mark.parametrize("case", PACK_CASES, ids=lambda c: f"n{c[0]}-D{c[3]}-sink{c[5]}-{c[7]}")
def test_pack_matches_reference(case):
    lengths_list, chosen, heads, dim, page_size, sink, k, dtype = case
    batch = len(lengths_list)
    cache = paged_cache(lengths_list, heads, dim, page_size, dtype)
    positions = torch.full((batch, heads, k), -1, dtype=torch.int32)
    for b, n in enumerate(chosen):
        for h in range(heads):
            positions[b, h, :n] = (torch.randperm(lengths_list[b] - sink)[:n] + sink).sort().values.int() if n else 0
    positions, lengths = positions.to(DEVICE), ints(lengths_list)

    def pack(backend):
        buffers = [poisoned(batch, heads, sink + k + 5, dim, dtype=dtype) for _ in range(2)]
        counts = poisoned(batch, heads, dtype=torch.int32)
        sfi_kernels.pack_memory(positions, *cache, lengths, *buffers, counts, sink=sink, backend=backend)
        return *buffers, counts

    for name, got, expected in zip(("packed_k", "packed_v", "counts"), pack("triton"), pack("reference"), strict=True):
        assert_equal(got, expected, f"{name} (rows beyond counts must keep their poison)")


def test_pack_leaves_inactive_sequences_alone():
    cache = paged_cache([60, 60], 2, 64, 16, torch.float32)
    positions = torch.arange(4, 14, dtype=torch.int32, device=DEVICE).expand(2, 2, -1).contiguous()
    k, v, counts = poisoned(2, 2, 14, 64), poisoned(2, 2, 14, 64), poisoned(2, 2, dtype=torch.int32)
    sfi_kernels.pack_memory(positions, *cache, ints([60, 60]), k, v, counts, sink=4, active=ints([1, 0]))
    assert counts.tolist() == [[14, 14], [-77, -77]], f"counts {counts.tolist()}"
    assert_equal(k[1], poisoned(2, 14, 64), "packed_k of the inactive sequence")


def test_pack_names_a_small_buffer():
    pages, table = torch.zeros(2, 1, 16, 64), torch.zeros(1, 1, dtype=torch.int32)
    small = torch.zeros(1, 1, 10, 64)
    with pytest.raises(ValueError, match=r"packed_k has 10 rows; sink \+ K = 12 are needed"):
        sfi_kernels.pack_memory(
            torch.zeros(1, 1, 8, dtype=torch.int32), pages, pages, table, torch.zeros(1, dtype=torch.int32), small, small,
            torch.zeros(1, 1, dtype=torch.int32), sink=4,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "dim", "tokens", "dtype"), [(3, 80, None, torch.bfloat16), (2, 128, 5, torch.float32)]
)
def test_write_cache_matches_reference(heads, dim, tokens, dtype):
    pages, page_size, length = 8, 16, 60
    table = torch.randperm(pages).view(2, 4).int().to(DEVICE)
    shape = (2, heads, dim) if tokens is None else (2, tokens, heads, dim)
    k, v = (torch.randn(*shape).to(DEVICE, dtype) for _ in range(2))
    positions = ints([14, -1]) if tokens is None else ints([14, 30])

    def write(backend):
        buffers = [poisoned(pages, heads, page_size, dim, dtype=dtype) for _ in range(2)]
        norms = poisoned(2, heads, length)
        sfi_kernels.write_cache(k, v, *buffers, table, positions, key_norms=norms, backend=backend)
        return *buffers, norms

    got, expected = write("triton"), write("reference")
    assert_equal(got[0], expected[0], "k_pages (other rows must keep their poison)")
    assert_equal(got[1], expected[1], "v_pages")
    assert_close(got[2], expected[2], (1e-5, 1e-5), "key_norms")
    row = double(k)[0].reshape(2, -1, heads, dim)[0, 0]
    assert_close(got[2][0, :, 14], row.norm(dim=-1), (1e-5, 1e-5), "norm of the first token")
