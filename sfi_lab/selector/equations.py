"""The selector's equations (arXiv 2603.12038, eqs 6-24), one function an equation, plain torch in float32.

Shapes: H_kv KV heads, R query rows of one KV head's group, J candidates, oldest first. What stands between λ and Top-K also
takes several refreshes at once, as further leading axes.
"""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-8


def renormalised(logits: Tensor) -> Tensor:
    """p_t(j): softmax over the candidates only, without sink and recent. logits [H_kv, R, J] -> same shape."""
    return torch.softmax(logits, dim=-1)


def evidence(p: Tensor, alpha: float) -> Tensor:
    """f(j) = μ(j)^(1/α) / Σ with μ(j) = mean over the R rows of p(j)^α. p [H_kv, R, J] -> [H_kv, J], rows sum to 1."""
    if p.shape[1] == 1:
        return p[:, 0]  # a mean over one row undoes its own power
    mean = torch.sqrt(p).mean(1).square() if alpha == 0.5 else p.pow(alpha).mean(1).pow(1.0 / alpha)
    return mean / mean.sum(-1, keepdim=True)


def key_norm_prior_log(key_norms: Tensor, gamma: float) -> Tensor:
    """log π_kn(j) = -γ log(‖k_j‖ + ε), up to a constant. key_norms [H_kv, J] -> [H_kv, J]."""
    return -gamma * torch.log(key_norms + EPS)


def position_prior_log(n: int, beta: float, power: float, eta: float, device: torch.device | None = None) -> Tensor:
    """log π_pos(j) = -β u^p + η log(1 - u + ε), u = 0 for the oldest of n candidates, 1 for the newest. -> [J]."""
    u = torch.linspace(0.0, 1.0, n, dtype=torch.float32, device=device)
    return -beta * u.pow(power) + eta * torch.log(1.0 - u + EPS)


def prior(norm_log: Tensor, position_log: Tensor, norm_weight: float, position_weight: float) -> Tensor:
    """r ∝ π_kn^w_norm · π_pos^w_pos. [H_kv, J] and [J] -> [H_kv, J], rows sum to 1."""
    return torch.softmax(norm_weight * norm_log + position_weight * position_log, dim=-1)


def balance(f: Tensor, r: Tensor, clip: float) -> Tensor:
    """λ = clip((‖f‖² - f·r) / (‖f‖² - 2 f·r + ‖r‖²), 0, λ_clip): minimises ‖s‖². [H_kv, J] twice -> [H_kv]."""
    ff, fr, rr = (f * f).sum(-1), (f * r).sum(-1), (r * r).sum(-1)
    denominator = ff - 2 * fr + rr
    free = torch.where(denominator > 0, (ff - fr) / denominator.clamp_min(1e-30), torch.zeros_like(ff))
    return free.clamp(0.0, clip)


def fuse(f: Tensor, r: Tensor, lam: Tensor) -> Tensor:
    """s = (1-λ) f + λ r, the minimiser of (1-λ) KL(f‖s) + λ KL(r‖s). f, r [H_kv, J]; lam [H_kv]."""
    return torch.lerp(f, r, lam[..., None])


def log_score(s: Tensor) -> Tensor:
    """z = log(s + ε)."""
    return torch.log(s + EPS)


def soft_nms(z: Tensor, radius: int, strength: float) -> Tensor:
    """z_nms = z - α_soft · max(m - z, 0), m = max of z within ±radius. No loop over candidates. [H_kv, J]."""
    if radius == 0 or strength == 0:
        return z
    return z - strength * (window_max(z, radius) - z)


def window_max(z: Tensor, radius: int) -> Tensor:
    """max of z within ±radius along the last axis; windows grow by doubling, so a wide one costs log2(2 radius + 1) passes."""
    wanted, have = 2 * radius + 1, 1
    m = torch.nn.functional.pad(z, (radius, radius), value=-torch.inf)
    while have < wanted:
        step = min(have, wanted - have)
        m = torch.maximum(m[..., :-step], m[..., step:])
        have += step
    return m


def exclusive(z: Tensor, strength: float, temperature: float) -> Tensor:
    """z_adj = z_nms + α_cross · log max(ρ_h(j), ε), ρ = softmax over the layer's KV heads of z_nms/τ. [H_kv, J]."""
    if strength == 0:
        return z
    rho = torch.log_softmax(z / temperature, dim=-2)
    return z + strength * rho.clamp_min(_LOG_EPS)


def top_k(z: Tensor, k: int) -> Tensor:
    """Top-K of z over J in rank order, equal scores by the lower position. [H_kv, J] -> int64 [H_kv, min(K, J)]."""
    n = z.shape[-1]
    k = min(k, n)
    values, order = torch.topk(z, k, dim=-1)
    # topk breaks ties arbitrarily: where the K-th score stands outside too, or ranks tie inside, a stable sort decides
    ties_inside = bool((values[:, 1:] == values[:, :-1]).any())
    ties_at_cut = bool(((z == values[:, -1:]).sum(-1) > (values == values[:, -1:]).sum(-1)).any())
    if ties_inside or ties_at_cut:
        order = torch.sort(z, dim=-1, descending=True, stable=True).indices[:, :k]
    return order


_LOG_EPS = float(torch.log(torch.tensor(EPS)))
