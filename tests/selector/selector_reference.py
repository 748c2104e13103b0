"""paper.md section 2 with loops in float64: slow, literal, and sharing no line with the library."""

import math

EPS = 1e-8


def reference(logits, norms, s):
    """Every stage as nested lists. logits [H][R][J], norms [H][J]; s is a Settings."""
    heads, rows, n = len(logits), len(logits[0]), len(logits[0][0])
    f, r, lam, fused, z, nms = [], [], [], [], [], []
    for h in range(heads):
        f.append(_evidence(logits[h], s.alpha))
        r.append(_prior(norms[h], s))
        lam.append(_lambda(f[h], r[h], s, rows))
        fused.append([(1 - lam[h]) * f[h][j] + lam[h] * r[h][j] for j in range(n)])
        z.append([math.log(x + EPS) for x in fused[h]])
        nms.append(_nms(z[h], s.nms_radius, s.nms_strength))
    adjusted = [[0.0] * n for _ in range(heads)]
    for j in range(n):
        top = max(nms[h][j] / s.temperature for h in range(heads))
        weights = [math.exp(nms[h][j] / s.temperature - top) for h in range(heads)]
        for h in range(heads):
            rho = weights[h] / sum(weights)
            adjusted[h][j] = nms[h][j] + s.exclusivity * math.log(max(rho, EPS))
    ranked = [sorted(range(n), key=lambda j, row=row: (-row[j], j))[: min(s.k, n)] for row in adjusted]
    return {"evidence": f, "prior": r, "lam": lam, "fused": fused, "log_score": z, "suppressed": nms,
            "exclusive": adjusted, "ranked": ranked, "indices": [sorted(row) for row in ranked]}  # fmt: skip


def _evidence(rows, alpha):
    n = len(rows[0])
    probabilities = []
    for row in rows:
        top = max(row)
        weights = [math.exp(x - top) for x in row]
        probabilities.append([w / sum(weights) for w in weights])
    mean = [sum(p[j] ** alpha for p in probabilities) / len(rows) for j in range(n)]
    powered = [m ** (1 / alpha) for m in mean]
    return [x / sum(powered) for x in powered]


def _prior(norms, s):
    n = len(norms)
    by_norm = [(k + EPS) ** -s.gamma for k in norms]
    by_place = []
    for j in range(n):
        u = j / (n - 1) if n > 1 else 0.0
        by_place.append(math.exp(-s.beta * u**s.power) * (1 - u + EPS) ** s.eta)
    by_norm = [x / sum(by_norm) for x in by_norm]
    by_place = [x / sum(by_place) for x in by_place]
    joint = [a**s.norm_weight * b**s.position_weight for a, b in zip(by_norm, by_place, strict=True)]
    return [x / sum(joint) for x in joint]


def _lambda(f, r, s, rows):
    if s.lam != "auto":
        return s.lam
    clip = s.lam_clip if not isinstance(s.lam_clip, tuple) else s.lam_clip[0 if rows == 1 else 1]
    ff, fr, rr = (sum(a * b for a, b in zip(x, y, strict=True)) for x, y in ((f, f), (f, r), (r, r)))
    bottom = ff - 2 * fr + rr
    return min(max((ff - fr) / bottom, 0.0), clip) if bottom > 0 else 0.0


def _nms(z, radius, strength):
    out = []
    for j in range(len(z)):
        m = max(z[max(0, j - radius) : j + radius + 1])
        out.append(z[j] - strength * max(m - z[j], 0.0))
    return out
