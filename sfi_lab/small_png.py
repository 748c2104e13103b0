"""PNGs with a palette, a third of the size: what notebooks keep of figures and panels, and the documentation's pictures."""

from __future__ import annotations

import io
from typing import Any

import numpy as np


def small_png(image: Any, colours: int = 256) -> bytes:
    """An RGB image (PIL) as a PNG with a palette: the commonest colours as they are, the rest as near as the palette comes."""
    from PIL import Image  # matplotlib brings it; who draws nothing needs none

    codes = np.asarray(image).astype(np.int32) @ np.array([1 << 16, 1 << 8, 1])
    found, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
    common = found[np.argsort(-counts, kind="stable")[: colours // 2]]
    rest = image.quantize(colours // 2, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette()
    palette = np.concatenate([_split(common), np.reshape(rest, (-1, 3))]).astype(np.float32)
    near = (palette**2).sum(1) - 2 * _split(found).astype(np.float32) @ palette.T  # squared distance but for a constant
    out = io.BytesIO()
    picture = Image.fromarray(near.argmin(1).astype(np.uint8)[where].reshape(codes.shape), "P")
    picture.putpalette(palette.astype(np.uint8).ravel().tolist())
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def _split(codes: Any) -> Any:
    """Red, green and blue of packed colours, [n, 3]."""
    return (codes[:, None] >> [16, 8, 0]) & 255
