"""The style sheet and the script of report.html: what they promise in print, in the dark, and when a table is sorted."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import contilab.report
from contilab.report.figures.theme import VARIABLES

HERE = Path(contilab.report.__file__).parent
STYLE, SCRIPT, PAGE = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "report.js", "report.html.j2"))
DARK, PRINT = "@media screen and (prefers-color-scheme: dark)", "@media print"


def block(opening):
    """Return what stands in the braces after *opening* in the style sheet, those of its rules included."""
    start = STYLE.index("{", STYLE.index(opening))
    depths = 0
    for place, letter in enumerate(STYLE[start:], start):
        depths += {"{": 1, "}": -1}.get(letter, 0)
        if not depths:
            return STYLE[start + 1 : place]
    raise AssertionError(opening)


def defined(text):
    """Return the variables that *text* defines."""
    return set(re.findall(r"(--[\w-]+):", text))


def used(text):
    """Return the variables that *text* reads."""
    return set(re.findall(r"var\((--[\w-]+)", text))


def rules(text):
    """Return the declarations of *text*, the inside of a block, by selector and property."""
    found = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text):
        parts = (part.partition(":") for part in body.split(";"))
        declared = {name.strip(): value.strip() for name, _, value in parts if value}
        for selector in selectors.split(","):
            found.setdefault(selector.strip(), {}).update(declared)
    return found


class TestColours:
    """Variables of the page, which the figures read too."""

    def test_every_variable_is_defined(self):
        """What the style sheet and the figures read is defined on paper; the share of a cell comes with the cell."""
        assert (used(STYLE) | set(VARIABLES.values())) - defined(block(":root")) == {"--share"}
        assert 'style="--share:' in PAGE

    def test_the_dark_page_sets_every_colour(self):
        """In the dark each variable but the typefaces has a value of its own."""
        assert defined(block(":root")) - defined(block(DARK)) == {"--sans", "--mono"}
        assert defined(block(DARK)) < defined(block(":root"))

    def test_print_is_never_dark(self):
        """The dark colours are for screens, and print is black on white whatever the reader prefers."""
        dark = [media for media in re.findall(r"@media([^{]+)\{", STYLE) if "prefers-color-scheme" in media]

        assert [media.split()[0] for media in dark] == ["screen"]
        assert {"color-scheme": "light", "--paper": "#fff", "--ink": "#000"}.items() <= rules(block(PRINT))[":root"].items()


class TestPrint:
    """What a reader of paper sees."""

    def test_controls_are_hidden(self):
        """Links between sections and tooltips are not printed, and folded parts are opened."""
        printed = rules(block(PRINT))

        assert {selector for selector, declared in printed.items() if declared.get("display") == "none"} == {"nav", ".tip"}
        assert "<nav " in PAGE
        assert 'tip.className = "tip"' in SCRIPT
        assert printed["details::details-content"]["content-visibility"] == "visible"

    def test_nothing_is_cut_off(self):
        """Wide tables wrap their words instead of being scrolled."""
        printed = rules(block(PRINT))

        assert (printed[".scroll"]["overflow"], printed["td"]["white-space"]) == ("visible", "normal")


@pytest.fixture(scope="module")
def in_order():
    """A function that returns values as the comparison of the script sorts them, by node."""
    node = shutil.which("node")
    if not node:
        pytest.skip("node, which runs the script of the page, is not installed")
    functions = SCRIPT[SCRIPT.index("const isEmpty") : SCRIPT.index("const sortBy")]

    def of(values, sign):
        told = f"{functions} const found = {json.dumps(values)}; found.sort((a, b) => compare(a, b, {sign}));"
        done = subprocess.run(
            [node, "-e", f"{told} console.log(JSON.stringify(found))"], capture_output=True, check=True, text=True, timeout=30
        )
        return json.loads(done.stdout)

    return of


class TestSorting:
    """The order of the rows of a table."""

    @pytest.mark.parametrize(
        ("values", "up"),
        [
            ([0.5, "–a", -2, "", 10], [-2, 0.5, 10, "–a", ""]),
            (["er strength=10", "–", "er strength=9", "naive"], ["er strength=9", "er strength=10", "naive", "–"]),
        ],
    )
    def test_what_is_absent_stays_at_the_end(self, in_order, values, up):
        """Numbers are sorted as numbers, words by the numbers in them, and cells without a value come last in both orders."""
        full = [value for value in up if value != "" and not str(value).startswith("–")]

        assert in_order(values, 1) == up
        assert in_order(values, -1) == full[::-1] + up[len(full) :]
