"""Public selection functions: z_adj of every candidate, and its Top-K."""

import torch

from . import checks
from .dispatch import implementation


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")


def select_scores(
    logits: torch.Tensor,
    key_norms: torch.Tensor,
    n_candidates: torch.Tensor,
    *,
    alpha: float,
    gamma: float,
    beta: float,
    power: float,
    eta: float,
    norm_weight: float,
    position_weight: float,
    lam: float | str = "auto",
    lam_clip: float,
    nms_radius: int,
    nms_strength: float,
    exclusivity: float,
    temperature: float,
    lse: torch.Tensor | None = None,
    active: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lam_out: torch.Tensor | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """The selector's adjusted score z_adj (paper, equations 6-24; formulas in `selector/reference.py`).

    Args:
        logits: [B, H_kv, R, J], any float dtype, unit stride in J: attention logits over the candidates, oldest first.
        key_norms: [B, H_kv, J], ‖k_j‖ of the candidates; a view such as norms[..., sink:] is fine (unit stride in J).
        n_candidates: int32 [B], J of each sequence; 0 leaves a sequence alone.
        alpha .. temperature: the settings of the same names; power, alpha and temperature above 0.
        lam: "auto" (closed form, clipped to 0 .. lam_clip, one a head) or a fixed number.
        lse: fp32 [B, H_kv, R], log-sum-exp of the logits over J if it is known (`dense_decode(score_lse=...)`);
            saves one pass.
        active: int32 [B], 0 leaves a sequence alone. None: all are active.
        out: fp32 [B, H_kv, J] to receive the result; entries beyond a sequence's J are left as they are.
        lam_out: fp32 [B, H_kv] to receive λ.

    Returns:
        z_adj, fp32 (float64 for float64 logits) [B, H_kv, J].
    """
    batch, heads, _, width = logits.shape if logits.ndim == 4 else (None,) * 4
    checks.shape("logits", logits, (batch, heads, None, width), "[B, H_kv, R, J]")
    checks.dtype("logits", logits, checks.VALUE_DTYPES)
    checks.shape("key_norms", key_norms, (batch, heads, None), "[B, H_kv, J]")
    if key_norms.shape[2] < width:
        raise ValueError(
            f"key_norms covers {key_norms.shape[2]} candidates, logits {width}; it must cover at least as many"
        )
    for name, x in (("logits", logits), ("key_norms", key_norms)):
        if x.stride(-1) != 1:
            raise ValueError(f"{name} must have unit stride in its last dimension, got strides {x.stride()}")
    checks.per_sequence(batch, n_candidates=n_candidates, active=active)
    checks.same_device(logits=logits, key_norms=key_norms, n_candidates=n_candidates, active=active, lse=lse)
    _positive(alpha=alpha, power=power, temperature=temperature)
    if isinstance(lam, str) and lam != "auto":
        raise ValueError(f'lam is {lam!r}; allowed are "auto" or a number')
    if nms_radius < 0:
        raise ValueError(f"nms_radius is {nms_radius}; it must be 0 or more")
    if lse is not None:
        checks.shape("lse", lse, tuple(logits.shape[:3]), "[B, H_kv, R]")
        checks.contiguous(lse=lse)
    if out is None:
        wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
        out = torch.empty((batch, heads, width), dtype=wide, device=logits.device)
    checks.shape("out", out, (batch, heads, width), "[B, H_kv, J]")
    checks.contiguous(lam_out=lam_out)
    implementation("selector", logits, backend).run(
        logits, key_norms, n_candidates, alpha=alpha, gamma=gamma, beta=beta, power=power, eta=eta,
        norm_weight=norm_weight, position_weight=position_weight, lam=lam, lam_clip=lam_clip, nms_radius=nms_radius,
        nms_strength=nms_strength, exclusivity=exclusivity, temperature=temperature, lse=lse, active=active, out=out,
        lam_out=lam_out,
    )  # fmt: skip
    return out


def top_k(
    scores: torch.Tensor,
    n_candidates: torch.Tensor,
    k: int,
    *,
    first: int = 0,
    active: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """The min(K, J) best candidates of every row, ascending; of equal scores the lower positions are taken.

    Args:
        scores: fp32 [B, H_kv, J], unit stride in J, no NaN; -inf is a value like any other, -0 equals +0.
        n_candidates: int32 [B], J of each sequence.
        k: K, 1 or more.
        first: added to every index: `sink` makes them absolute positions.
        active: int32 [B], 0 leaves a sequence's row of `out` as it is.
        out: int32 [B, H_kv, K], contiguous.

    Returns:
        int32 [B, H_kv, K]; -1 behind the min(K, J) entries.
    """
    checks.shape("scores", scores, (None, None, None), "[B, H_kv, J]")
    checks.dtype("scores", scores, (torch.float32, torch.float64))
    if scores.stride(-1) != 1:
        raise ValueError(f"scores must have unit stride in its last dimension, got strides {scores.stride()}")
    batch, heads, width = scores.shape
    if width >= 2**21:
        raise ValueError(f"scores has {width} candidates a row; top_k takes fewer than {2**21}")
    checks.per_sequence(batch, n_candidates=n_candidates, active=active)
    checks.same_device(scores=scores, n_candidates=n_candidates, active=active, out=out)
    if k < 1:
        raise ValueError(f"k is {k}; it must be 1 or more")
    if out is None:
        out = torch.empty((batch, heads, k), dtype=torch.int32, device=scores.device)
    checks.shape("out", out, (batch, heads, k), "[B, H_kv, K]")
    checks.dtype("out", out, (torch.int32,))
    checks.contiguous(out=out)
    implementation("topk", scores, backend).run(scores, n_candidates, k, first=first, active=active, out=out)
    return out
