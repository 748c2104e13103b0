"""Inputs and comparisons shared by the kernel tests."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
POISON = -59904.0  # what outputs hold before a call; exact in every dtype

# (absolute, relative) against the float64 reference on the same rounded inputs
TOLERANCE = {torch.float32: (2e-5, 2e-5), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.2e-2, 1.2e-2)}


def ints(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float], what: str) -> None:
    """Elementwise |a - e| <= atol + rtol |e|; the message names the worst index and both values."""
    a, e = actual.double().cpu(), expected.double().cpu()
    assert a.shape == e.shape, f"{what}: shape {tuple(a.shape)}, expected {tuple(e.shape)}"
    same = a == e  # equal infinities included
    excess = torch.where(same, 0.0, (a - e).abs() - tolerance[0] - tolerance[1] * e.abs())
    excess = torch.where(excess.isnan(), float("inf"), excess)
    if (excess > 0).any():
        worst = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
        raise AssertionError(
            f"{what}: {int((excess > 0).sum())} of {a.numel()} elements differ; worst at {worst}: "
            f"got {a[worst].item():.6g}, expected {e[worst].item():.6g}, allowed {tolerance}"
        )


def assert_equal(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Exact equality, worst index named."""
    assert_close(actual, expected, (0.0, 0.0), what)


def paged_cache(lengths, heads: int, dim: int, page_size: int, dtype: torch.dtype):
    """(k_pages, v_pages, block_tables): pages in random order; every row no sequence owns is NaN."""
    pages_of = [-(-n // page_size) for n in lengths]
    n_pages = sum(pages_of) + 3
    order = torch.randperm(n_pages)
    k, v = (torch.full((n_pages, heads, page_size, dim), float("nan"), dtype=dtype) for _ in range(2))
    tables = torch.full(
        (len(lengths), max([*pages_of, 1]) + 1), n_pages + 10**6, dtype=torch.int32
    )  # unused: far outside
    used = 0
    for b, n in enumerate(lengths):
        mine = order[used : used + pages_of[b]]
        used += pages_of[b]
        tables[b, : pages_of[b]] = mine
        for p in range(pages_of[b]):
            rows = min(page_size, n - p * page_size)
            k[mine[p], :, :rows] = torch.randn(heads, rows, dim).to(dtype)
            v[mine[p], :, :rows] = torch.randn(heads, rows, dim).to(dtype)
    return k.to(DEVICE), v.to(DEVICE), tables.to(DEVICE)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that shows which elements were written."""
    return torch.full(shape, POISON if dtype.is_floating_point else -77, dtype=dtype, device=DEVICE)


def double(*tensors):
    """float64 CPU copies of floating tensors, CPU copies of the others."""
    return [t.cpu().double() if t.is_floating_point() else t.cpu() for t in tensors]
