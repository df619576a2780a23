"""From a figure to SVG: as a file of its own, and as part of a page."""

import html
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from contilab.report.figures.theme import RC, VARIABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTH = 10.0  # inches; on a page of 68 rem, 9 points then are 12.6 pixels


class Drawing(NamedTuple):
    """A finished figure: *key* (its file name without ending), *caption*, *alt* (what it shows, in words), *svg* text."""

    key: str
    caption: str
    alt: str
    svg: str

    @property
    def inline(self) -> str:
        """The figure as an element of a page: named, with its own identifiers, colours as variables of the page."""
        body = self.svg[self.svg.index("<svg") :]
        body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
        body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.key}-", body)
        for colour, variable in VARIABLES.items():
            body = body.replace(colour, f"var({variable}, {colour})")
        opening = f'<svg role="img" aria-label="{html.escape(self.alt)}" class="figure"'
        return re.sub(r'^<svg\b(.*?) width="[^"]*"', rf"{_literal(opening)}\1", _without_height(body), count=1, flags=re.DOTALL)


def draw(key: str, caption: str, alt: str, figure: "Figure") -> Drawing:
    """Render *figure*, which was made inside `styled`; the same figure gives the same bytes."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    out = io.StringIO()
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()  # places everything
        figure.set_layout_engine("none")  # placing it again while it is drawn would give the same, for a fifth of the time
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(out, metadata={"Date": None, "Creator": "contilab"})  # type: ignore[no-untyped-call]  # it has no types
    return Drawing(key, caption, alt, out.getvalue())


def new_figure(height: float) -> "Figure":
    """Return an empty figure of *height* inches, independent of any display; all are equally wide, so type has one size."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height))


@contextmanager
def styled() -> Iterator[None]:
    """Make and render figures in our style, whatever matplotlibrc the user has."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")  # text stays text: the reader's fonts have it
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")


def _without_height(body: str) -> str:
    return re.sub(r'^(<svg\b[^>]*?) height="[^"]*"', r"\1", body, count=1, flags=re.DOTALL)
