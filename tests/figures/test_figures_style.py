"""The style: colours that colour-blind readers tell apart, and a user's matplotlibrc that changes nothing."""

import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from sfi_lab.figures import style

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
PAIRS = {
    "series": style.SERIES,
    "sides": (style.WITHIN, style.ACROSS),
    "routes": (style.FAST, style.SLOW),
    "reasons to be read": (style.SINK, style.RECENT, style.SELECTED),
}


def lab(rgb: np.ndarray) -> np.ndarray:
    """Linear RGB to CIELAB (D65)."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    t = xyz / [0.9505, 1.0, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def linear(color: str) -> np.ndarray:
    c = np.array(to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("kind", BLIND)
@pytest.mark.parametrize("group", PAIRS)
def test_colours_are_told_apart(kind, group):
    for a, b in itertools.combinations(PAIRS[group], 2):
        distance = np.linalg.norm(lab(np.array(BLIND[kind]) @ linear(a)) - lab(np.array(BLIND[kind]) @ linear(b)))
        assert distance > 14, f"{a} and {b} look alike to a {kind} reader (ΔE {distance:.1f})"


def test_series_differ_without_colour():
    assert len(set(style.MARKERS)) == len(style.MARKERS) == len(style.SERIES) == len(set(map(str, style.DASHES)))


def test_user_settings_change_nothing_and_come_back():
    def drawn() -> bytes:
        with style.styled():
            figure = style.new(2, 1)
            figure.subplots().plot([1, 2], [1, 3], label="a")
        return style.rendered(figure, "svg")

    plain = drawn()
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "svg.fonttype": "none"}):
        assert drawn() == plain
        assert matplotlib.rcParams["font.size"] == 20, "the user's settings are put back"
