"""How figures look: colours, line styles and type, on paper and on a light or dark page.

Colours of series are those of Okabe and Ito, told apart with every common colour blindness. Markers, and the styles of lines
that lie beside each other, differ as well: for print in grey, and so that a line shows through one that lies on it. On a page
each colour is a variable, so a dark page can set its own.
"""

from typing import Any

INK = "#1b2027"
MUTED = "#68717d"
LINE = "#d9dee4"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c8c8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
STYLES = ("-", "--", "-.", ":")
SEQUENCE = ("#f2f6fa", "#c9dff0", "#7fb5dc", "#2f7fbc", "#0b3a6f")  # accuracy 0 to 1

VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line"} | {hex_: f"--s{i}" for i, hex_ in enumerate(SERIES)}

RC: dict[Any, Any] = {
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so text is measured alike on every machine
    "font.size": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "hatch.color": LINE,
    "hatch.linewidth": 1.0,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and takes the font of the page
    "svg.hashsalt": "contilab",  # identifiers from content instead of chance: the same store gives the same bytes
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign of a setting is a dollar sign
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}


def colour(index: int) -> str:
    """Return the colour of series *index*."""
    return SERIES[index % len(SERIES)]


def marker(index: int) -> str:
    """Return the marker of series *index*."""
    return MARKERS[index % len(MARKERS)]


def style(index: int) -> str:
    """Return the line style of series *index*: another one than its neighbours have, and than the series of its colour."""
    return STYLES[(index + index // len(SERIES)) % len(STYLES)]
