"""Accuracy matrices that other tools got wrong, through the whole report."""

import csv
import dataclasses
import io
import re

import pytest

from contilab.report.write import write_report

MATRICES = {
    "naive": [[0.9, 0.0, 0.0], [0.95, 0.8, 0.0], [0.7, 0.6, 0.9]],  # continuum#281: values by hand from the papers
    "er": [[0.7]],  # one task: nothing to forget
    "si": [[0.9, None, None], [0.8, None, None], [0.6, 0.7, 0.8]],  # avalanche#1343: rows 3, 7 and 9, one evaluation absent
}
ROWS = [[3], [7], [9]]
GAP = "the accuracy on task 1 after task 1 was not measured"
CELLS = [("whole", "naive", [0], {}, "task"), ("one", "er", [0], {}, "task"), ("gap", "si", [0], {}, "class")]


def with_matrix(run, outcome):
    """Return *outcome* with the matrix of its method, and nothing that it was not made with."""
    matrix = MATRICES[run.method.name]
    tasks = len(matrix)
    record = dataclasses.replace(
        outcome.record,
        tasks=tasks,
        stages=tasks,
        head_rows=10,
        task_rows=ROWS[:tasks],
        test_samples=[20] * tasks,
        accuracy=matrix,
        accuracy_all_rows=[[value or 0.0 for value in row] for row in matrix],
        validation=None,
        baseline=[0.1] * tasks,
    )
    return outcome._replace(record=record, tensors={"target": outcome.tensors["target"][: 20 * tasks]})


@pytest.fixture(scope="module")
def written(new_study, tmp_path_factory):
    """The report of a study with one such matrix per benchmark."""
    return write_report(new_study(CELLS, change=with_matrix).root, "tiny", tmp_path_factory.mktemp("out"))


def rows_of(written, name):
    """Return the rows of a table."""
    return list(csv.DictReader(io.StringIO((written.directory / name).read_text())))


def values(written, preset, *names):
    """Return the metrics *names* of the only run of *preset*, as results.csv has them."""
    [row] = [row for row in rows_of(written, "results.csv") if row["preset"] == preset]
    return [row[name] for name in names]


def reasons(written, preset):
    """Return why metrics of the only run of *preset* are absent, by name."""
    [run] = values(written, preset, "run")
    return {row["metric"]: row["reason"] for row in rows_of(written, "absent.csv") if row["run"] == run}


def part_of(written, preset):
    """Return what report.md says of *preset*."""
    return (written.directory / "report.md").read_text().split(f"\n## {preset}\n")[1].split("\n## ")[0]


class TestWhole:
    """A matrix with every cell."""

    def test_values_are_those_of_the_papers(self, written):
        """No task is missing from a sum, the last one is not counted, and no two metrics are swapped."""
        found = [float(value) for value in values(written, "whole", "acc", "bwt", "forgetting")]

        assert found == pytest.approx([2.2 / 3, -0.2, 0.225], abs=1e-12)

    def test_the_page_shows_them(self, written):
        """The table for people has the same values in the same order as its columns."""
        lines = [line.split(" | ") for line in part_of(written, "whole").splitlines() if line.startswith("| ")]
        shown = dict(zip(lines[0], lines[1], strict=True))
        found = [shown[name].split()[0] for name in (r"acc ↑", r"bwt ↑", r"forgetting ↓")]

        assert found == ["0.7333", "-0.2000", "0.2250"]


class TestOneTask:
    """A study with one task."""

    def test_differences_have_no_value(self, written):
        """What compares two tasks is empty, with the reason, and not 0; what was measured is there."""
        found = reasons(written, "one")

        assert values(written, "one", "acc", "bwt", "forgetting", "aia") == ["0.7", "", "", ""]
        assert (found["bwt"], found["forgetting"], found["aia"]) == ("one task only", "one task only", "one row only")

    def test_the_page_says_why(self, written):
        """No table has a line or a column for them; notes name them with the reason, on both pages."""
        text = part_of(written, "one").replace("\\", "")
        notes = [line.removeprefix("- ").rpartition(": ")[0] for line in text.splitlines() if line.endswith(": one task only")]

        assert {"bwt", "forgetting", "relative_forgetting"} <= {name for names in notes for name in names.split(", ")}
        assert "| bwt" not in text
        assert re.search(r"<li>[^<]*\bbwt, [^<]*: one task only</li>", written.path.read_text())


class TestGap:
    """Head rows 3, 7 and 9, and an evaluation that is not there."""

    def test_numbers_are_right(self, written):
        """Where rows of the head begin does not matter to the metrics that have all of their cells."""
        assert float(values(written, "gap", "acc")[0]) == pytest.approx(0.7, abs=1e-12)

    def test_what_reads_the_gap_says_so(self, written):
        """Metrics that read it are absent with the cell that is missing, in the table and on both pages."""
        found = reasons(written, "gap")

        assert {found[name] for name in ("bwt", "forgetting", "learning_accuracy", "aia")} == {GAP}
        assert values(written, "gap", "bwt", "forgetting", "learning_accuracy", "aia") == [""] * 4
        assert GAP in part_of(written, "gap")
        assert GAP in written.path.read_text()
