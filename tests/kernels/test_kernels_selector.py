"""select_scores against its float64 reference."""

import pytest
import torch

import sfi_kernels
from kernel_cases import DEVICE, POISON, assert_close, assert_equal, double, ints, poisoned

RELEASED = {
    "alpha": 0.5, "gamma": 0.5, "beta": 0.568, "power": 1.8, "eta": 0.4, "norm_weight": 1.0, "position_weight": 0.7,
    "lam": "auto", "lam_clip": 0.35, "nms_radius": 16, "nms_strength": 1.0, "exclusivity": 0.85, "temperature": 2.0,
}  # fmt: skip
PAPER = {**RELEASED, "lam_clip": 0.02, "nms_strength": 0.5, "exclusivity": 0.35}

# J of each sequence, H_kv, R, settings over the released ones, logits dtype
CASES = [
    ([1, 2], 2, 1, RELEASED, torch.float32),
    ([17, 1035, 0], 2, 4, PAPER, torch.float32),  # rows of 1,040: the wide loads
    ([5000], 1, 7, RELEASED, torch.float32),
    ([300], 8, 3, {**RELEASED, "nms_radius": 2, "lam": 0.3}, torch.float32),
    ([700], 3, 16, {**RELEASED, "nms_radius": 40, "alpha": 1.0}, torch.bfloat16),
    ([130, 64], 2, 2, {**PAPER, "nms_radius": 0, "exclusivity": 0.0, "lam": 0.0}, torch.float32),
    ([257], 5, 8, {**RELEASED, "lam_clip": 1.0, "alpha": 0.2, "power": 0.7, "temperature": 0.3}, torch.float16),
]


def inputs(sizes, heads, rows, dtype):
    width = max(sizes) + 5
    logits = (torch.randn(len(sizes), heads, rows, width) * 4).to(dtype)
    norms = torch.rand(len(sizes), heads, width + 16) * 20 + 1
    for b, n in enumerate(sizes):
        logits[b, ..., n:] = float("nan")
        norms[b, :, n + 3 :] = float("nan")
    return logits.to(DEVICE), norms.to(DEVICE)[..., 3:], ints(sizes)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"J{c[0]}-H{c[1]}-R{c[2]}-r{c[3]['nms_radius']}")
def test_selector_matches_reference(case):
    sizes, heads, rows, settings, dtype = case
    logits, norms, n = inputs(sizes, heads, rows, dtype)
    shape = (len(sizes), heads, logits.shape[3])
    lam = torch.full(shape[:2], POISON, dtype=torch.float64)
    expected = torch.full(shape, POISON, dtype=torch.float64)
    sfi_kernels.select_scores(*double(logits, norms, n), **settings, out=expected, lam_out=lam, backend="reference")

    got_lam = poisoned(*shape[:2])
    got = sfi_kernels.select_scores(logits, norms, n, **settings, out=poisoned(*shape), lam_out=got_lam)
    assert_close(got, expected, (1e-3, 1e-4), "z_adj (entries beyond J must keep their poison)")
    assert_close(got_lam, lam, (2e-4, 2e-4), "lambda")

    known = torch.stack([torch.logsumexp(logits[b, ..., :j].double(), -1) for b, j in enumerate(sizes)]).float()
    got = sfi_kernels.select_scores(logits, norms, n, **settings, out=poisoned(*shape), lse=known)
    assert_close(got, expected, (1e-3, 1e-4), "z_adj with a known log-sum-exp")


def test_selector_leaves_inactive_sequences_alone():
    logits, norms, n = inputs([40, 60], 2, 2, torch.float32)
    kept = poisoned(2, 2, logits.shape[3])
    sfi_kernels.select_scores(logits, norms, n, **RELEASED, out=kept, active=ints([0, 1]))
    alone = sfi_kernels.select_scores(logits, norms, n, **RELEASED)
    assert_equal(kept[0], torch.full_like(kept[0], POISON), "the inactive sequence")
    assert_equal(kept[1, :, :60], alone[1, :, :60], "the active sequence")


def test_selector_peaked_evidence_reaches_the_clip_and_equal_evidence_does_not():
    logits = torch.zeros(1, 1, 1, 64, device=DEVICE)
    norms = torch.ones(1, 1, 64, device=DEVICE)
    lam = poisoned(1, 1)
    flat = {**RELEASED, "position_weight": 0.0}
    sfi_kernels.select_scores(logits, norms, ints([64]), **flat, lam_out=lam)
    assert 0.0 <= float(lam) <= 0.35, f"λ of equal f and r is clipped, got {float(lam)}"
    logits[..., 10] = 30.0
    sfi_kernels.select_scores(logits, norms, ints([64]), **flat, lam_out=lam)
    assert float(lam) == pytest.approx(0.35), f"λ of a peaked f, got {float(lam)}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": "automatic"}, "lam is 'automatic'; allowed are \"auto\" or a number"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be above 0"),
        ({"nms_radius": -1}, "nms_radius is -1"),
        ({"key_norms": torch.ones(1, 1, 7)}, "key_norms covers 7 candidates, logits 9"),
        ({"logits": torch.ones(1, 1, 9)}, "logits must be"),
    ],
)
def test_selector_names_bad_input(change, message):
    args = {
        "logits": torch.zeros(1, 1, 1, 9), "key_norms": torch.ones(1, 1, 9),
        "n_candidates": torch.ones(1, dtype=torch.int32), **RELEASED,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        sfi_kernels.select_scores(**{**args, **change})
