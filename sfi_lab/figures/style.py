"""How every figure looks, and how it becomes the same bytes each time: sizes, colours, fonts, saving."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches: one column and the full width of a two-column paper
FORMATS = ("pdf", "svg", "png")
DPI = 300

# the panels' colours (widgets); far apart for colour-blind readers too, and each meaning has a marker or dash of its own
SINK, RECENT, SELECTED, OTHER = "#a8327d", "#1467b3", "#00a878", "#70777f"
SLOW, FAST, INK, FAINT, BAND = "#c2410c", "#1467b3", "#24292f", "#667079", "#e4e8ec"
WITHIN, ACROSS = RECENT, "#e08a00"
SERIES = ("#0b3c6f", "#e08a00", "#00a878", "#e58cc4", "#5fb2f0", "#70777f")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1)), (0, (1, 3)))
MAP = "viridis"  # sequential, even in lightness

_RC = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine has the same one
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.axisbelow": True,
    "grid.color": BAND,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "image.interpolation": "none",
    "image.cmap": MAP,
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,  # TrueType, embedded
    "svg.fonttype": "path",  # glyphs as outlines: nothing to install, nothing to substitute
    "svg.hashsalt": "sfi_lab",  # ids from content, not from chance
    "mathtext.fontset": "dejavusans",
}

# no dates, no program versions: the manifest keeps those
_METADATA = {
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
    "png": {"Software": None},
}


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's defaults plus this style, whatever the user's matplotlibrc says; everything is put back afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def new(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, drawn without pyplot, so no global state and no window."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def rendered(figure: Figure, form: str, dpi: int = DPI) -> bytes:
    """The figure as a file of one of `FORMATS`; the same figure gives the same bytes."""
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format=form, metadata=_METADATA[form], dpi=dpi)
    return out.getvalue()


def band(axes: Axes, x, low, high, color: str) -> None:
    """An interval around a line."""
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def letter(axes: Axes, mark: str, text: str = "") -> None:
    """Panel title: a letter in bold, then what it shows."""
    axes.set_title(rf"$\bf{{{mark}}}$  {text}")


def legend_above(figure: Figure, handles, labels, columns: int) -> None:
    """One legend for all panels, over them."""
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.4)
