"""Which variants the figures of a section show."""

import pytest
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from contilab.report import drawings as drawings_module
from contilab.report.drawings import drawings
from contilab.report.figures.heatmap import DARK, LIGHT, LIGHT_FROM
from contilab.report.figures.theme import SEQUENCE, colour, style
from contilab.report.write import report_of

NOTE = "Only variants that enter comparisons are shown."


@pytest.fixture(scope="module")
def made(new_study):
    """The report of naive and of four strengths of ewc, of which the largest is best on validation samples."""
    cells = [("p", "ewc", [0, 1], {"strength": strength}, "task") for strength in (1.0, 2.0, 3.0, 4.0)]
    return report_of(new_study([("p", "naive", [0, 1], {}, "task"), *cells]), "tiny")[1]


def drawn(made, name):
    """Return the figure *name* of the only section."""
    return next(one for one in drawings(made)[made.sections[0].anchor] if one.key.endswith(f"-{name}"))


class TestVariants:
    """A figure of a large sweep."""

    def test_of_too_many_the_chosen_ones_are_shown(self, made, monkeypatch):
        """Where they cannot be told apart, each method is drawn with its chosen variant, and the caption says so."""
        monkeypatch.setattr(drawings_module, "MOST", 4)
        bars = drawn(made, "bars")

        assert bars.alt.count("ewc") == 1
        assert "ewc strength=4.0: acc" in bars.alt
        assert bars.caption.endswith(NOTE)

    def test_the_grid_shows_them_all(self, made, monkeypatch):
        """The figure of the sweep is about the variants, and has each."""
        few = drawn(made, "sweep")
        monkeypatch.setattr(drawings_module, "MOST", 4)

        assert drawn(made, "sweep") == few

    def test_few_are_all_shown(self, made):
        """As many as can be told apart are drawn."""
        bars = drawn(made, "bars")

        assert bars.alt.count("ewc") == 4
        assert NOTE not in bars.caption


def luminance(rgb):
    """Return the relative luminance of a colour of three shares of 1 (WCAG 2)."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class TestMatrix:
    """Values in the cells of accuracy matrices."""

    @pytest.mark.parametrize("value", [place / 100 for place in range(0, 101, 5)])
    def test_can_be_read(self, value):
        """Whatever its shade, a cell and its value have a contrast above 4."""
        shade = LinearSegmentedColormap.from_list("accuracy", SEQUENCE)(value)[:3]
        ink = to_rgb(LIGHT if value > LIGHT_FROM else DARK)
        darker, lighter = sorted(map(luminance, (shade, ink)))

        assert (lighter + 0.05) / (darker + 0.05) > 4


class TestSeries:
    """Lines of one figure."""

    def test_are_told_apart_in_grey(self):
        """Lines beside each other differ in style, and 32 of them all differ in colour or style."""
        assert all(style(index) != style(index + 1) for index in range(31))
        assert len({(colour(index), style(index)) for index in range(32)}) == 32
