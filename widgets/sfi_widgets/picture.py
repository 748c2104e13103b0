"""A picture beside the widget: what GitHub, nbconvert and other viewers show that run no widgets.

A notebook that is shown carries both in one output; JupyterLab and Voilà take the widget, everything else the picture.
Panels import matplotlib with themselves (0.4 s), so that the first picture doesn't make a cell wait for that.
"""

from __future__ import annotations

import base64
import warnings
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image  # matplotlib needs it too

from sfi_lab.errors import SfiError
from sfi_lab.small_png import small_png

DPI, COLOURS = 80, 128  # pixels an inch and palette: 2 to 30 kB a picture, so that a saved notebook stays small


class Pictured:
    """Adds `image/png` to a widget's output. The class has `to_figure()`; `_stale()` forgets the picture made before."""

    _png: bytes | None = None
    picture = True  # False on a class or a widget: outputs carry the widget alone

    def to_figure(self) -> Figure:
        """What is shown, as a matplotlib figure; SfiError where there is nothing to draw."""
        raise NotImplementedError

    def to_png(self) -> bytes:
        """`to_figure()` as a small PNG, made once until something changes; b"" where there is nothing to draw."""
        if self._png is None:
            try:
                self._png = png(self._quick_figure())
            except SfiError:
                self._png = b""
        return self._png

    def _quick_figure(self) -> Figure:
        """`to_figure()`, but never waits for a computation under way."""
        return self.to_figure()

    def _stale(self, _change: Any = None) -> None:
        self._png = None

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if not found or not self.picture:
            return found
        data, about = found if isinstance(found, tuple) else (found, {})
        try:
            made = self.to_png()
        except Exception as error:  # a widget without its picture is better than none
            warnings.warn(f"{type(self).__name__} has no picture: {type(error).__name__}: {error}", stacklevel=2)
            made = b""
        return ({**data, "image/png": base64.b64encode(made).decode()} if made else data), about


def png(figure: Figure) -> bytes:
    """A figure as a PNG with a palette."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return small_png(Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB"), COLOURS)
