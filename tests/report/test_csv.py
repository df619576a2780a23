"""What a spreadsheet reads in the tables of a report: texts that begin like a formula stay texts."""

import csv
import io

import pytest

from contilab.metrics.contract import Metric, Missing
from contilab.report.derive import derive
from contilab.report.rows import csv_of
from contilab.report.write import report_of, tables

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1"]


def read(data):
    """Return the rows of a table, its header first, as a program reads them."""
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
class TestCells:
    """Cells of every table."""

    def test_a_value_is_a_text(self, text):
        """A value that begins like a formula gets an apostrophe, in one cell; a return is a new line."""
        assert read(csv_of(["a"], [{"a": text}])) == [["a"], ["'" + text.replace("\r", "\n")]]

    def test_a_header_is_a_text(self, text):
        """So does the name of a column."""
        assert read(csv_of([text], [{text: "b"}])) == [["'" + text.replace("\r", "\n")], ["b"]]


class TestReturns:
    """Ends of lines within a text."""

    @pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
    def test_stay_within_their_cell(self, end):
        """What follows one begins no row and no cell of its own, where it could be a formula."""
        assert read(csv_of(["a", "b"], [{"a": f"x{end}=1+1", "b": "y"}])) == [["a", "b"], ["x\n=1+1", "y"]]


class TestNumbers:
    """What is no text."""

    @pytest.mark.parametrize(
        ("value", "written"), [(-0.5, "-0.5"), (-3, "-3"), (True, "true"), ([-1, 2], "[-1, 2]"), (None, "")]
    )
    def test_are_left_as_they_are(self, value, written):
        """Negative numbers, truths and lists have no apostrophe, and what is absent is empty."""
        assert read(csv_of(["a"], [{"a": value}])) == [["a"], [written]]


@pytest.fixture(scope="module")
def found(new_study):
    """The tables of a study whose preset, setting and reason begin like formulas, as rows by name."""
    store = new_study([("+p", method, [0, 1], {"note": "-n"}, "task") for method in ("naive", "er")])

    def formula(_):
        raise Missing("=1+1")

    derive(store, "tiny", [Metric("own", formula, "never")])
    runs, made = report_of(store, "tiny")
    whole = {name: read(data) for name, data in tables(made, runs).items() if name.endswith(".csv")}
    return {name: [dict(zip(rows[0], row, strict=True)) for row in rows[1:]] for name, rows in whole.items()}


class TestTables:
    """The tables of a study with such texts."""

    @pytest.mark.parametrize(
        ("name", "column", "text"),
        [
            ("results.csv", "preset", "'+p"),
            ("results.csv", "method.note", "'-n"),
            ("comparisons.csv", "preset", "'+p"),
        ],
    )
    def test_names_of_a_study_are_texts(self, found, name, column, text):
        """Presets and settings stay texts wherever they are written."""
        assert {row[column] for row in found[name]} == {text}

    def test_a_reason_is_a_text(self, found):
        """So does the reason of a metric of the user's own."""
        assert {row["reason"] for row in found["absent.csv"] if row["metric"] == "own"} == {"'=1+1"}

    def test_differences_stay_numbers(self, found):
        """A negative difference is a number."""
        [row] = [row for row in found["comparisons.csv"] if row["metric"] == "forgetting"]

        assert float(row["mean_difference"]) < 0
