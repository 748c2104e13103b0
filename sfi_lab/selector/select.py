"""One refresh of one layer: logits and key norms in, every stage of the selector out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from sfi_lab.errors import SfiError
from sfi_lab.selector import equations as eq
from sfi_lab.settings import Settings

STAGES = ("evidence", "prior", "fusion", "nms", "exclusivity", "topk")


@dataclass(frozen=True, slots=True)
class Selection:
    """Every stage of one refresh; float32 except the indices. J candidates are counted from the oldest (0)."""

    evidence: Tensor  # f [H_kv, J], rows sum to 1
    prior: Tensor  # r [H_kv, J], rows sum to 1
    lam: Tensor  # λ [H_kv]
    fused: Tensor  # s [H_kv, J]
    log_score: Tensor  # z [H_kv, J]
    suppressed: Tensor  # z_nms [H_kv, J]
    exclusive: Tensor  # z_adj [H_kv, J]
    ranked: Tensor  # the same positions as `indices`, best first: a smaller K is a prefix. int64 [H_kv, min(K, J)]
    indices: Tensor  # Top-K, ascending. int64 [H_kv, min(K, J)]


def select(
    logits: Tensor, key_norms: Tensor, settings: Settings, lap: Callable[[str], None] | None = None
) -> Selection:
    """Selects K candidates per KV head from one layer's evidence (arXiv 2603.12038, eqs 6-24).

    Args:
        logits: scaled, pre-softmax attention logits [H_kv, R, J] of R query rows (the group's query heads × recent
            queries) over the J candidates, oldest first; -inf where a row may not look. Any float dtype.
        key_norms: ‖k_j‖ of the cached keys [H_kv, J].
        settings: α, γ, β, p, η, weights, λ, NMS, exclusivity and K are read.
        lap: called with a stage's name (`STAGES`) as each is finished, for timing.

    Raises:
        SfiError: shapes that don't fit each other, or no candidate at all.
    """
    if logits.ndim != 3 or key_norms.shape != (logits.shape[0], logits.shape[2]) or logits.shape[2] == 0:
        raise SfiError(
            f"select takes logits [H_kv, R, J] and key_norms [H_kv, J] with J ≥ 1; got {tuple(logits.shape)} and "
            f"{tuple(key_norms.shape)}"
        )
    lap = lap or _no_lap
    f = evidence_of(logits, settings)
    lap("evidence")
    r = prior_of(key_norms, settings)
    lap("prior")
    return choose(f, r, logits.shape[1], settings, lap)


def evidence_of(logits: Tensor, settings: Settings) -> Tensor:
    """f from logits [H_kv, R, J] -> [H_kv, J]. Depends on α only, so what-if keeps it."""
    return eq.evidence(eq.renormalised(logits.float()), settings.alpha)


def prior_of(key_norms: Tensor, settings: Settings) -> Tensor:
    """r from key norms [H_kv, J]. Depends on γ, β, p, η and the two weights only, so what-if keeps it."""
    position_log = eq.position_prior_log(
        key_norms.shape[1], settings.beta, settings.power, settings.eta, key_norms.device
    )
    norm_log = eq.key_norm_prior_log(key_norms.float(), settings.gamma)
    return eq.prior(norm_log, position_log, settings.norm_weight, settings.position_weight)


def choose(f: Tensor, r: Tensor, rows: int, settings: Settings, lap: Callable[[str], None] | None = None) -> Selection:
    """The rest of the selector, from evidence and prior [H_kv, J] of `rows` query rows."""
    lap = lap or _no_lap
    if settings.lam == "auto":
        lam = eq.balance(f, r, settings.lam_clip_for(rows))
    else:
        lam = f.new_full((f.shape[0],), settings.lam)
    s = eq.fuse(f, r, lam)
    z = eq.log_score(s)
    lap("fusion")
    z_nms = eq.soft_nms(z, settings.nms_radius, settings.nms_strength)
    lap("nms")
    z_adj = eq.exclusive(z_nms, settings.exclusivity, settings.temperature)
    lap("exclusivity")
    ranked = eq.top_k(z_adj, settings.k)
    indices = ranked.sort(dim=-1).values
    lap("topk")
    return Selection(f, r, lam, s, z, z_nms, z_adj, ranked, indices)


def _no_lap(_stage: str) -> None:
    return None
