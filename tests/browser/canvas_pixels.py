"""A panel's canvas as pixels, and where they carry a colour of the palette."""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np

PIXELS = """(selector) => {
  const canvas = document.querySelector(selector), {width, height} = canvas;
  return {width, height, data: canvas.toDataURL('image/png').split(',')[1]};
}"""


def pixels(page, panel):
    """RGBA of a panel's canvas, uint8 [height, width, 4]."""
    page.wait_for_timeout(80)
    got = page.evaluate(PIXELS, f".sfi-{panel} .sfi-canvas canvas")
    return (plt.imread(io.BytesIO(base64.b64decode(got["data"]))) * 255).round().astype(np.uint8)


def close_to(image, colour, within=12):
    """Where an image has a colour, whatever its transparency."""
    return (np.abs(image[..., :3].astype(int) - np.array(colour)).max(-1) <= within) & (image[..., 3] > 200)


def hue(image, hexa, least=25):
    """Where a pixel is a mix of white and `hexa`: it leans to that hue."""
    target = np.array([int(hexa[i : i + 2], 16) for i in (1, 3, 5)], float)
    ink = 255.0 - image[..., :3].astype(float)
    wanted = 255.0 - target
    length = np.linalg.norm(ink, axis=-1)
    cosine = (ink @ wanted) / np.maximum(length * np.linalg.norm(wanted), 1e-9)
    return (cosine > 0.985) & (length > least) & (image[..., 3] > 200)


SINK, RECENT, SELECTED, BEFORE = "#a8327d", "#1467b3", "#00805e", "#c98500"
