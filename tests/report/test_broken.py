"""A study with all that can be wrong with results: each gap is told of where it is, and every other number stands."""

import csv
import html
import io
import json
import math
import re
import shutil
from statistics import fmean

import pytest

from contilab.catalog import METRICS
from contilab.report.statistics.paired import sign_flip
from contilab.report.write import write_report

CELLS = [
    ("tiny_class", "naive", [0, 1, 2], {}, "class"),
    ("tiny_class", "joint", [0, 1, 2], {}, "class"),
    ("tiny_class", "er", [0, 1, 2], {}, "class"),
    ("tiny_class", "ewc", [0, 1, 2], {"strength": 1.0}, "class"),
    ("tiny_class", "si", [0, 1, 2], {}, "class"),
    ("tiny_class", "mas", [0, 1, 2], {"strength": 1.0}, "class"),
    ("tiny_class", "mas", [0, 1, 2], {"strength": 10.0}, "class"),
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


def is_lost(label, seed):
    """Tell whether the run of a variant and of a seed, as tables write them, was spoilt."""
    method = label.split()[0]
    return method == "joint" or str(LOST.get(method)) == seed


def is_spoilt(label, seed):
    """Tell whether what a row or a column is about was spoilt; a mean is, where one of its seeds was."""
    method = label.split()[0]
    return is_lost(label, seed) if seed else method in REASONS


def is_broken(row):
    """Tell whether the run of a row was spoilt."""
    return is_lost(row["method"], row["seed"])


def plain(text):
    """Return a page as a reader sees it: without elements and escapes, one line per line of a table or list."""
    parts = re.split(r"</(?:tr|li|p|caption|h\d)>", text)
    return "\n".join(html.unescape(" ".join(re.sub(r"<[^>]*>", " ", part).split())) for part in parts)


def lines_of(written, name):
    """Return the lines of report.md or report.html, as a reader sees them."""
    text = (written.directory / name).read_text(encoding="utf-8")
    return [line.strip(" |") for line in (plain(text) if name.endswith("html") else text.replace("\\", "")).splitlines()]


def tables_of(written, name):
    """Return the tables of report.md or report.html, each as rows of cells, without the marks of notes."""
    text = (written.directory / name).read_text(encoding="utf-8")
    if name.endswith("md"):
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        rows = [[line for line in block.splitlines() if not line.startswith("|--")] for block in blocks]
        return [[[unmarked(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table] for table in rows]
    found = [re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL) for table in re.findall(r"<table.*?</table>", text, re.DOTALL)]
    return [[[plain(re.sub(r"<sup>.*?</sup>", "", cell)) for cell in cells_of(row)] for row in table] for table in found]


def cells_of(row):
    """Return the elements of the cells of a row of HTML."""
    return re.findall(r"<t[hd].*?</t[hd]>", row.replace("<wbr>", ""), re.DOTALL)


def unmarked(cell):
    """Return a cell of Markdown without the marks of notes."""
    return re.sub(r" \([a-z]\)", "", cell.replace("\\", "")).strip()


def numbers_of(written, name):
    """Return the cells of all tables of a page by table, head of the row, seed ("" of a mean) and column."""
    return {
        (place, row[0], row[1] if header[1] == "seed" else "", column): cell
        for place, (header, *rows) in enumerate(tables_of(written, name))
        for row in rows
        for column, cell in zip(header, row, strict=True)
    }


class TestRows:
    """results.csv and absent.csv."""

    def test_every_other_number_stands(self, reports):
        """The rows of all runs that were left alone are those of the undisturbed study, to the last digit."""
        whole, broken = map(rows_of, reports)
        kept = [row for row in broken if not is_broken(row)]

        assert len(kept) == 17
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

    @pytest.mark.parametrize("name", ["results.csv", "absent.csv", "comparisons.csv"])
    def test_no_cell_is_not_a_number(self, reports, name):
        """What has no value is empty: no cell reads as nan or infinity, nor holds a word for nothing."""
        cells = {cell for row in rows_of(reports[1], name) for cell in row.values()}

        assert cells.isdisjoint({"nan", "inf", "-inf", "NaN", "None", "null"})


def comparisons_of(written):
    """Return the rows of comparisons.csv by metric and method."""
    return {(row["metric"], row["method"]): row for row in rows_of(written, "comparisons.csv")}


def differences(row):
    """Return the differences of a row by seed."""
    return json.loads(row["differences"] or "{}")


class TestComparisons:
    """comparisons.csv and selection.json."""

    def test_pairs_that_are_left_stand(self, reports):
        """Each test is over the seeds that both sides still have, with the differences of the undisturbed study."""
        whole, broken = map(comparisons_of, reports)
        left = {
            key: {seed: value for seed, value in differences(row).items() if not is_lost(key[1], seed)}
            for key, row in whole.items()
        }

        assert {key: differences(row) for key, row in broken.items()} == left
        assert len(left["acc", "er"]) == 2

    def test_values_are_those_of_the_pairs(self, reports):
        """Mean difference, p and number of seeds are those of the pairs that are left; without a pair they are empty."""
        rows = comparisons_of(reports[1]).values()
        pairs = [list(differences(row).values()) for row in rows]
        expected = [(str(len(d)), str(fmean(d)), str(sign_flip(d))) if d else ("0", "", "") for d in pairs]

        assert [(row["n"], row["mean_difference"], row["p"]) for row in rows] == expected

    def test_comparisons_of_what_was_left_alone_are_the_same(self, reports):
        """Only what is of the family, from which joint training is gone, may change in the row of another method."""
        whole, broken = map(comparisons_of, reports)
        of_family = ("family_size", "p_holm", "verdict")
        mine = [key for key in whole if key[1].startswith("mas")]

        assert len(mine) >= 7
        assert [{**broken[key], **dict.fromkeys(of_family)} for key in mine] == [
            {**whole[key], **dict.fromkeys(of_family)} for key in mine
        ]

    def test_choices_are_the_same(self, reports):
        """The grid of what was left alone has its scores and its choice."""
        whole, broken = (json.loads((one.directory / "selection.json").read_text()) for one in reports)

        assert [grid["method"] for grid in whole["presets"]["tiny_class"]] == ["mas"]
        assert broken == whole


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

    def test_every_other_number_stands(self, reports, name):
        """In every table, cells of runs and columns of methods that were left alone are those of the undisturbed study."""
        whole, broken = (
            {
                (place, row, seed, column): cell
                for (place, row, seed, column), cell in numbers_of(one, name).items()
                if row and not is_spoilt(row, seed) and not is_spoilt(column, seed)
            }
            for one in reports
        )

        assert len(whole) > 400
        assert broken == whole

    def test_no_cell_is_not_a_number(self, reports, name):
        """What has no value is a dash or empty: no cell holds nan, infinity or a word for nothing, nor is sorted by it."""
        words = {word.lower() for cell in numbers_of(reports[1], name).values() for word in cell.split()}
        text = (reports[1].directory / name).read_text(encoding="utf-8")

        assert words.isdisjoint({"nan", "inf", "-inf", "+inf", "+nan", "none", "null"})
        assert all(math.isfinite(float(value)) for value in re.findall(r'data-sort="([^"]*)"', text))

    def test_what_is_lost_is_a_dash(self, reports, name):
        """No metric of a lost run is a number, least of all 0: between its state and its address there are dashes."""
        cells = numbers_of(reports[1], name)
        spoilt = {key: cell for key, cell in cells.items() if key[2] and is_lost(key[1], key[2])}
        values = [cell for key, cell in spoilt.items() if key[3] not in ("method", "seed", "state", "run")]

        assert len(values) >= 6 * 6
        assert set(values) == {"–"}
