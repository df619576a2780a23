"""What report.html says of the files beside it."""

import re
from collections import defaultdict

import pytest

from contilab.report.page_html import page_html
from contilab.report.write import report_of

ALWAYS = ["results.csv", "absent.csv", "comparisons.csv", "selection.json", "report.md"]
FIRST = "results.csv (every metric of every run), "
REST = (
    "absent.csv (why a value is missing), comparisons.csv (every test), selection.json (grids, scores and choices), report.md"
)


@pytest.fixture(scope="module")
def footer(store):
    """A function that returns the footer of the page of the study, beside which these files lie."""
    made = report_of(store, "tiny")[1]

    def of(files):
        [text] = re.findall("<footer>(.*)</footer>", page_html(made, defaultdict(tuple), files))
        return text

    return of


class TestFooter:
    """The files beside the page."""

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ([], f"{FIRST}{REST}"),
            (["figures/a.svg", "figures/b.svg"], f"{FIRST}{REST}, figures/"),
            (
                ["results.parquet", "tables.tex"],
                f"{FIRST}results.parquet (the same with types), {REST}, tables.tex (for papers)",
            ),
        ],
    )
    def test_names_what_is_there(self, footer, more, text):
        """Each file that is written is named with what it is, and none that is not."""
        assert footer([*ALWAYS, *more]) == f"Beside this page: {text}."

    def test_of_a_written_report(self, written, page):
        """Of a report in its folder no file is left out, figures being named by theirs."""
        [text] = re.findall("<footer>(.*)</footer>", page)
        there = {path.relative_to(written.directory).parts[0] for path in written.files} - {"report.html"}

        assert there >= {*ALWAYS, "figures"}
        assert [name for name in sorted(there) if name not in text] == []
