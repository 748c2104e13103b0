"""The selector's score in plain torch, one function an equation, in the paper's symbols.

p(j)   = softmax over the candidates            μ(j) = mean over rows of p(j)^α
f(j)   = μ(j)^(1/α) / Σ                         evidence
r(j)   ∝ (‖k_j‖ + ε)^(-γ w_norm) · (exp(-β u^p) (1 - u + ε)^η)^w_pos          prior, u = 0 oldest .. 1 newest
λ      = clip( (‖f‖² - f·r) / (‖f‖² - 2 f·r + ‖r‖²), 0, λ_clip )              one a head
z      = log((1-λ) f + λ r + ε)
z_nms  = z - α_soft · max(max_{|i-j| <= radius} z(i) - z(j), 0)
ρ_h(j) = softmax over KV heads of z_nms(j) / τ
z_adj  = z_nms + α_cross · log max(ρ_h(j), ε)
"""

import torch

EPS = 1e-8


def evidence(p: torch.Tensor, alpha: float) -> torch.Tensor:
    """Power mean over rows, normalised. p [H, R, J] -> f [H, J]."""
    mu = p.pow(alpha).mean(1).pow(1 / alpha)
    return mu / mu.sum(-1, keepdim=True)


def prior(norms, *, gamma, beta, power, eta, norm_weight, position_weight) -> torch.Tensor:
    """Key-norm and position prior, normalised. norms [H, J] -> r [H, J]."""
    n = norms.shape[-1]
    index = torch.arange(n, dtype=norms.dtype, device=norms.device)
    u = index / max(n - 1, 1)
    newness = (max(n - 1, 1) - index) / max(n - 1, 1)  # 1 - u without its cancellation
    log_position = -beta * u.pow(power) + eta * torch.log(newness + EPS)
    log_r = -gamma * norm_weight * torch.log(norms + EPS) + position_weight * log_position
    return torch.softmax(log_r, -1)


def fusion_weight(f: torch.Tensor, r: torch.Tensor, lam, lam_clip: float) -> torch.Tensor:
    """λ of each head: the minimiser of ‖(1-λ) f + λ r‖², clipped; or the given number. f, r [H, J] -> [H]."""
    if lam != "auto":
        return torch.full(f.shape[:1], float(lam), dtype=f.dtype, device=f.device)
    ff, fr, rr = (f * f).sum(-1), (f * r).sum(-1), (r * r).sum(-1)
    denominator = ff - 2 * fr + rr
    best = torch.where(denominator > 0, (ff - fr) / denominator.clamp_min(1e-30), 0)
    return best.clamp(0, lam_clip)


def soft_nms(z: torch.Tensor, radius: int, strength: float) -> torch.Tensor:
    """z - strength * max(window maximum - z, 0). z [H, J]."""
    if radius == 0 or strength == 0:
        return z
    window = torch.nn.functional.max_pool1d(z[:, None], 2 * radius + 1, stride=1, padding=radius)[:, 0]
    return z - strength * (window - z).clamp_min(0)


def cross_head(z: torch.Tensor, exclusivity: float, temperature: float) -> torch.Tensor:
    """z + exclusivity * log max(softmax over heads of z / τ, ε). z [H, J]."""
    if exclusivity == 0:
        return z
    rho = torch.softmax(z / temperature, 0)
    return z + exclusivity * torch.log(rho.clamp_min(EPS))


def run(
    logits, key_norms, n_candidates, *, alpha, gamma, beta, power, eta, norm_weight, position_weight, lam, lam_clip,
    nms_radius, nms_strength, exclusivity, temperature, lse, active, out, lam_out,
) -> None:  # fmt: skip
    """Write z_adj of the active sequences into out [B, H_kv, J]; entries past a sequence's J are left as they are."""
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    for b, n in enumerate(n_candidates.tolist()):
        if n == 0 or (active is not None and not int(active[b])):
            continue
        x = logits[b, ..., :n].to(dtype)
        p = torch.softmax(x, -1) if lse is None else torch.exp(x - lse[b, ..., None].to(dtype))
        f = evidence(p, alpha)
        r = prior(
            key_norms[b, :, :n].to(dtype), gamma=gamma, beta=beta, power=power, eta=eta,
            norm_weight=norm_weight, position_weight=position_weight,
        )  # fmt: skip
        weight = fusion_weight(f, r, lam, lam_clip)
        z = torch.log((1 - weight)[:, None] * f + weight[:, None] * r + EPS)
        out[b, :, :n] = cross_head(soft_nms(z, nms_radius, nms_strength), exclusivity, temperature).to(out.dtype)
        if lam_out is not None:
            lam_out[b] = weight.to(lam_out.dtype)
