"""A study with all that can be wrong with results: each gap is told of where it is, and every other number stands."""

import csv
import html
import io
import re
import shutil
from statistics import fmean

import pytest

from contilab.catalog import METRICS
from contilab.report.write import write_report

CELLS = [
    ("tiny_class", "naive", [0, 1, 2], {}, "class"),
    ("tiny_class", "joint", [0, 1, 2], {}, "class"),
    ("tiny_class", "er", [0, 1, 2], {}, "class"),
    ("tiny_class", "ewc", [0, 1, 2], {"strength": 1.0}, "class"),
    ("tiny_class", "si", [0, 1, 2], {}, "class"),
    ("tiny_task", "naive", [0, 1], {}, "task"),
]
JOINT = {(1, seed): {"task": 0, "step": 5} for seed in (0, 1, 2)}  # one stage, so nothing of it is left
LOST = {"er": 1, "ewc": 2, "si": 0}  # the seed of each that diverged, is missing, is damaged
REASONS = {
    "joint": "the run diverged in task 0 at step 5",
    "er": "the run diverged in task 2 at step 40",
    "ewc": "the run has no result: waiting",
    "si": "the run has no result: damaged: record.jsonl is not what was published",
}


@pytest.fixture(scope="module")
def reports(new_study, tmp_path_factory):
    """The report of the study undisturbed, and the one of the same study with all four faults."""
    out = tmp_path_factory.mktemp("reports")
    whole = write_report(new_study(CELLS).root, "tiny", out / "whole")
    store = new_study(CELLS, diverged={**JOINT, (2, LOST["er"]): {"task": 2, "step": 40}})
    rids = {(run.cell.method, run.seed): run.rid for run in whole.runs}
    shutil.rmtree(store.result_dir(rids["ewc", LOST["ewc"]]))
    with (store.result_dir(rids["si", LOST["si"]]) / "record.jsonl").open("r+") as file:
        file.write("#")
    return whole, write_report(store.root, "tiny", out / "broken")


def rows_of(written, name="results.csv"):
    """Return the rows of a table."""
    return list(csv.DictReader(io.StringIO((written.directory / name).read_text(encoding="utf-8"))))


def is_broken(row):
    """Tell whether the run of a row was spoilt."""
    return row["method"] == "joint" or LOST.get(row["method"]) == int(row["seed"])


def plain(text):
    """Return a page as a reader sees it: without elements and escapes, one line per line of a table or list."""
    parts = re.split(r"</(?:tr|li|p|caption|h\d)>", text)
    return "\n".join(html.unescape(" ".join(re.sub(r"<[^>]*>", " ", part).split())) for part in parts)


def lines_of(written, name):
    """Return the lines of report.md or report.html, as a reader sees them."""
    text = (written.directory / name).read_text(encoding="utf-8")
    return [line.strip(" |") for line in (plain(text) if name.endswith("html") else text.replace("\\", "")).splitlines()]


class TestRows:
    """results.csv and absent.csv."""

    def test_every_other_number_stands(self, reports):
        """The rows of all runs that were left alone are those of the undisturbed study, to the last digit."""
        whole, broken = map(rows_of, reports)
        kept = [row for row in broken if not is_broken(row)]

        assert len(kept) == 11
        assert kept == [row for row in whole if not is_broken(row)]

    def test_what_is_lost_is_empty(self, reports):
        """Runs without a result have a state and no number; what diverged has only what does not need its end."""
        _, broken = map(rows_of, reports)
        states = {(row["method"], row["state"]) for row in broken if is_broken(row)}

        assert states == {("joint", "diverged"), ("er", "diverged"), ("ewc", "waiting"), ("si", "damaged")}
        assert {row["acc"] for row in broken if is_broken(row)} == {""}
        assert {row[name] for row in broken if row["state"] in ("waiting", "damaged") for name in METRICS} == {""}

    def test_each_gap_has_its_reason(self, reports):
        """Of each run that lost its accuracy absent.csv says why."""
        rids = {row["run"]: row["method"] for row in rows_of(reports[1]) if is_broken(row)}
        absent = rows_of(reports[1], "absent.csv")
        found = {(rids[row["run"]], row["reason"]) for row in absent if row["metric"] == "acc"}

        assert found == set(REASONS.items())


@pytest.mark.parametrize("name", ["report.md", "report.html"])
class TestPages:
    """report.md and report.html."""

    def test_means_are_of_the_seeds_that_are_left(self, reports, name):
        """Methods that lost a seed stand with the mean of the others and their number, beside a mark; joint with none."""
        whole = rows_of(reports[0])
        lines = lines_of(reports[1], name)
        tables = {line.split()[0]: line for line in reversed(lines) if line.split()[:1] and line.split()[0] in REASONS}

        for method, seed in LOST.items():
            mean = fmean(float(row["acc"]) for row in whole if row["method"] == method and int(row["seed"]) != seed)
            assert f"{mean:.4f}" in tables[method]
            assert "n 2 of 3" in tables[method]
        assert not re.search(r"\d", tables["joint"])

    def test_reasons_stand_below_the_table(self, reports, name):
        """Each reason is a note of the table, and the runs it is about are named at the top of the page."""
        text = "\n".join(lines_of(reports[1], name))
        at_the_top = text[: text.index("synthetic, class-incremental")]

        assert [reason for reason in REASONS.values() if text.count(reason) == 0] == []
        assert "tiny_class, er, seed 1: non-finite loss in task 2 at step 40" in at_the_top
        assert "tiny_class, joint, seed 2: non-finite loss in task 0 at step 5" in at_the_top
        assert "tiny_class, ewc, method.strength = 1.0, seed 2" in at_the_top
        assert "tiny_class, si, seed 0: record.jsonl is not what was published" in at_the_top

    def test_lines_of_what_was_left_alone_are_the_same(self, reports, name):
        """In every table of means and of seeds the lines of naive are those of the undisturbed study."""
        whole, broken = ([line for line in lines_of(one, name) if line.startswith("naive")] for one in reports)

        assert len(whole) >= 9
        assert broken == whole
