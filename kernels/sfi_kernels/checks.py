"""Argument checks shared by the operations: one sentence that names what was wrong and what is allowed."""

import torch

VALUE_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def same_device(**tensors: torch.Tensor | None) -> None:
    """Every tensor that is not None lies on one device."""
    devices = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(devices.values())) > 1:
        raise ValueError(
            f"all tensors must be on one device, got {', '.join(f'{k} on {v}' for k, v in devices.items())}"
        )


def shape(name: str, x: torch.Tensor, expected: tuple[int | None, ...], layout: str) -> None:
    """`x` has the expected shape; None stands for any size; `layout` is how the message spells it."""
    if x.ndim != len(expected) or any(
        want is not None and got != want for got, want in zip(x.shape, expected, strict=True)
    ):
        wanted = tuple("any" if want is None else want for want in expected)
        raise ValueError(f"{name} must be {layout} = {wanted}, got {tuple(x.shape)}")


def dtype(name: str, x: torch.Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    """`x` has one of the allowed dtypes."""
    if x.dtype not in allowed:
        raise ValueError(f"{name} has dtype {x.dtype}; allowed: {', '.join(str(d) for d in allowed)}")


def contiguous(**tensors: torch.Tensor | None) -> None:
    """The kernels compute addresses from shapes, so these tensors must be contiguous."""
    for name, x in tensors.items():
        if x is not None and not x.is_contiguous():
            raise ValueError(f"{name} must be contiguous, got strides {x.stride()} for shape {tuple(x.shape)}")


def per_sequence(batch: int, **tensors: torch.Tensor | None) -> None:
    """int32 vectors with one entry a sequence."""
    for name, x in tensors.items():
        if x is not None:
            shape(name, x, (batch,), "[B]")
            dtype(name, x, (torch.int32,))
            contiguous(**{name: x})


def pages(k_pages: torch.Tensor, v_pages: torch.Tensor, block_tables: torch.Tensor, batch: int) -> None:
    """The paged cache: [n_pages, H_kv, page_size, D] twice, and int32 block tables [B, max_pages]."""
    if k_pages.ndim != 4 or k_pages.shape != v_pages.shape:
        raise ValueError(
            f"k_pages and v_pages must be [n_pages, H_kv, page_size, D] and equal in shape, "
            f"got {tuple(k_pages.shape)} and {tuple(v_pages.shape)}"
        )
    dtype("k_pages", k_pages, VALUE_DTYPES)
    dtype("v_pages", v_pages, (k_pages.dtype,))
    contiguous(k_pages=k_pages, v_pages=v_pages)
    page_size = k_pages.shape[2]
    if page_size < 16 or page_size & (page_size - 1):
        raise ValueError(f"page_size is {page_size}; allowed are powers of two from 16 up")
    if k_pages.shape[3] % 8:  # rows of 16-byte multiples, which the kernels' wide loads rely on
        raise ValueError(f"the head dimension D is {k_pages.shape[3]}; allowed are multiples of 8")
    shape("block_tables", block_tables, (batch, None), "[B, max_pages]")
    dtype("block_tables", block_tables, (torch.int32,))
    if block_tables.stride(1) != 1:
        raise ValueError(
            f"block_tables must have unit stride in its last dimension, got strides {block_tables.stride()}"
        )


def query(q: torch.Tensor, heads: int, dim: int) -> torch.Tensor:
    """q as [B, H_kv, G, D], from that shape or from [B, Hq, D] with Hq a multiple of H_kv."""
    if q.ndim == 3 and q.shape[2] == dim and q.shape[1] % heads == 0:
        return q.unflatten(1, (heads, q.shape[1] // heads))
    if q.ndim == 4 and q.shape[1] == heads and q.shape[3] == dim:
        return q
    raise ValueError(
        f"q must be [B, H_kv, G, D] or [B, H_kv * G, D] with H_kv = {heads} and D = {dim}, got {tuple(q.shape)}"
    )
