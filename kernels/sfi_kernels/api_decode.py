"""Public attention functions: the step's plan, dense decode, sparse decode."""

import torch

from . import checks
from .decode.tuning import default_tuning, programs_on
from .dispatch import implementation
from .plan.layout import DecodePlan, allocate_plan, default_block_n


def plan_step(
    lengths: torch.Tensor,
    *,
    heads: int,
    group: int,
    dim: int,
    element_size: int = 2,
    packed_len: torch.Tensor | None = None,
    recent_start: torch.Tensor | None = None,
    route: torch.Tensor | None = None,
    plan: DecodePlan | None = None,
    slots: int | None = None,
    block_n: int | None = None,
    min_tiles: int | None = None,
    backend: str | None = None,
) -> DecodePlan:
    """Cut one decode step into even pieces of work; every layer's attention then reads the same list.

    Args:
        lengths: int32 [B], keys cached per sequence (the new one included).
        heads, group, dim: H_kv, G, D.
        element_size: bytes of a K/V element (chooses default launch parameters).
        packed_len: int32 [B], rows of packed memory a fast sequence reads, an upper bound over heads and layers.
        recent_start: int32 [B], first position of the recent window (only read on the fast route).
        route: int32 [B], 0 = packed + recent, 1 = all pages. None: every sequence takes all pages.
        plan: a plan to refill in place (the captured case); None allocates one.
        slots: pieces per KV head at most; default: as many programs as run at once. Raised to B if below.
        block_n, min_tiles: keys in a tile (power of two >= 16), fewest tiles in a piece.

    Returns:
        The filled `DecodePlan`. Its counters must be zero, which every finished launch leaves them.

    Raises:
        ValueError: route without packed_len and recent_start, wrong shapes or dtypes.
    """
    checks.per_sequence(
        lengths.shape[0], lengths=lengths, packed_len=packed_len, recent_start=recent_start, route=route
    )
    checks.same_device(lengths=lengths, packed_len=packed_len, recent_start=recent_start, route=route)
    if route is not None and (packed_len is None or recent_start is None):
        raise ValueError("a plan with routes needs packed_len and recent_start as well")
    tuning = default_tuning(dim, element_size, group)
    if plan is None:
        slots = slots or max(1, programs_on(lengths.device, tuning, route is not None) // heads)
        block_n = block_n or default_block_n(dim)
        if block_n < 16 or block_n & (block_n - 1):
            raise ValueError(f"block_n is {block_n}; allowed are powers of two from 16 up")
        plan = allocate_plan(lengths.shape[0], heads, group, dim, slots, block_n, lengths.device)
    if plan.counters.shape != (lengths.shape[0], heads) or plan.partial_out.shape[2:] != (group, dim):
        raise ValueError(
            f"the plan was made for [B, H_kv, G, D] = {(*plan.counters.shape, *plan.partial_out.shape[2:])}, "
            f"got {(lengths.shape[0], heads, group, dim)}"
        )
    fill = implementation("plan", lengths, backend).fill
    fill(plan, lengths, packed_len, recent_start, route, tuning.min_tiles if min_tiles is None else min_tiles)
    return plan


def _check_scores(scores, score_lse, recent_start, q4) -> None:
    """The optional logits buffer and what must come with it."""
    if scores is None:
        if score_lse is not None:
            raise ValueError("score_lse is written beside scores; pass scores as well")
        return
    if recent_start is None:
        raise ValueError("scores are written for positions sink .. recent_start - 1; pass recent_start as well")
    checks.shape("scores", scores, (*q4.shape[:3], None), "[B, H_kv, G, J]")
    checks.dtype("scores", scores, checks.VALUE_DTYPES)
    if scores.stride(3) != 1:
        raise ValueError(f"scores must have unit stride in its last dimension, got strides {scores.stride()}")
    if score_lse is not None:
        checks.shape("score_lse", score_lse, tuple(q4.shape[:3]), "[B, H_kv, G]")
        checks.contiguous(score_lse=score_lse)


def _prepare(q, k_pages, v_pages, block_tables, lengths, scores, score_lse, recent_start, out):
    """Checks common to both decode functions; returns (q, out) as [B, H_kv, G, D] and out in the caller's shape."""
    checks.pages(k_pages, v_pages, block_tables, q.shape[0])
    q4 = checks.query(q, k_pages.shape[1], k_pages.shape[3])
    checks.dtype("q", q, (k_pages.dtype,))
    checks.per_sequence(q.shape[0], lengths=lengths, recent_start=recent_start)
    checks.same_device(
        q=q, k_pages=k_pages, block_tables=block_tables, lengths=lengths, scores=scores, recent_start=recent_start
    )
    _check_scores(scores, score_lse, recent_start, q4)
    if q4.stride(3) != 1:
        q4 = q4.contiguous()
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    checks.shape("out", out, tuple(q.shape), "the shape of q")
    checks.contiguous(out=out)
    return q4, out.view(q4.shape), out


def dense_decode(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    *,
    softcap: float | None = None,
    scores: torch.Tensor | None = None,
    score_lse: torch.Tensor | None = None,
    sink: int = 0,
    recent_start: torch.Tensor | None = None,
    plan: DecodePlan | None = None,
    out: torch.Tensor | None = None,
    tuning=None,
    backend: str | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v over positions 0 .. length - 1 of every sequence, split over the device.

    Args:
        q: [B, H_kv, G, D] or [B, H_kv * G, D], bf16, fp16, fp32 (float64: reference).
        k_pages, v_pages: [n_pages, H_kv, page_size, D], contiguous; the dtype of q. A page of one head is one
            contiguous block (16 KiB at 64 x 128 in bf16), the longest run the decode read can have.
        block_tables: int32 [B, max_pages], page of position p is block_tables[b, p // page_size].
        lengths: int32 [B]; 0 gives a row of zeros.
        scale: factor on the logits, usually D ** -0.5.
        softcap: c replaces s by c * tanh(s / c).
        scores: [B, H_kv, G, J] to receive the logits (scaled, capped, before the softmax) of positions
            sink .. recent_start - 1, at index position - sink; fp32 or 16 bits. Other entries stay as they are.
        score_lse: fp32 [B, H_kv, G] to receive their log-sum-exp (-inf without candidates).
        sink, recent_start: the candidates' range; recent_start int32 [B].
        plan: from `plan_step` without routes; None makes one here (one more launch).
        out: receives the result; contiguous, shape and dtype of q.
        tuning: a `decode.tuning.DecodeTuning` to use instead of the default (its warps and stages).

    Returns:
        out, in the shape and dtype of q.

    Raises:
        ValueError: with a sentence naming the tensor and what is allowed.
    """
    q4, out4, out = _prepare(q, k_pages, v_pages, block_tables, lengths, scores, score_lse, recent_start, out)
    if plan is None:
        _, heads, group, dim = q4.shape
        plan = plan_step(lengths, heads=heads, group=group, dim=dim, element_size=q.element_size(), backend=backend)
    implementation("dense", q, backend).run(
        q4, k_pages, v_pages, block_tables, lengths, scale, softcap=softcap, scores=scores, score_lse=score_lse,
        sink=sink, recent_start=recent_start, plan=plan, out=out4, tuning=tuning,
    )  # fmt: skip
    return out


def sparse_decode(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    packed_k: torch.Tensor,
    packed_v: torch.Tensor,
    counts: torch.Tensor,
    recent_start: torch.Tensor,
    route: torch.Tensor,
    scale: float,
    *,
    softcap: float | None = None,
    scores: torch.Tensor | None = None,
    score_lse: torch.Tensor | None = None,
    sink: int = 0,
    plan: DecodePlan | None = None,
    out: torch.Tensor | None = None,
    tuning=None,
    backend: str | None = None,
) -> torch.Tensor:
    """One launch for a batch on mixed routes: packed memory and recent window where route is 0, all pages where 1.

    Args (beyond those of `dense_decode`):
        packed_k, packed_v: [B, H_kv, rows, D], contiguous; sink and selected K/V of this layer (`pack_memory`).
        counts: int32 [B, H_kv], valid rows of packed memory; at most the plan's packed_len.
        recent_start: int32 [B], the recent window is [recent_start, length), read in place from the pages.
        route: int32 [B], 0 or 1.
        scores, score_lse: filled for sequences with route 1 (score_lse is -inf for the others).
        plan: from `plan_step` with the same lengths, recent_start and route.

    Returns:
        out, in the shape and dtype of q.
    """
    q4, out4, out = _prepare(q, k_pages, v_pages, block_tables, lengths, scores, score_lse, recent_start, out)
    batch, heads, group, dim = q4.shape
    for name, x in (("packed_k", packed_k), ("packed_v", packed_v)):
        checks.shape(name, x, (batch, heads, None, dim), "[B, H_kv, rows, D]")
        checks.dtype(name, x, (q.dtype,))
    checks.shape("counts", counts, (batch, heads), "[B, H_kv]")
    checks.dtype("counts", counts, (torch.int32,))
    checks.contiguous(packed_k=packed_k, packed_v=packed_v, counts=counts)
    checks.per_sequence(batch, route=route)
    checks.same_device(q=q, packed_k=packed_k, packed_v=packed_v, counts=counts, route=route)
    if plan is None:
        plan = plan_step(
            lengths, heads=heads, group=group, dim=dim, element_size=q.element_size(), backend=backend,
            packed_len=counts.amax(1), recent_start=recent_start, route=route,
        )  # fmt: skip
    implementation("sparse", q, backend).run(
        q4, k_pages, v_pages, block_tables, lengths, packed_k, packed_v, counts, recent_start, route, scale,
        softcap=softcap, scores=scores, score_lse=score_lse, sink=sink, plan=plan, out=out4, tuning=tuning,
    )  # fmt: skip
    return out
