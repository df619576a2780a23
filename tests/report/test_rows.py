"""results.csv, absent.csv and the rows for notebooks."""

import csv
import io
import sys

import pytest

from contilab.catalog import METRICS
from contilab.errors import StoreError, UsageError
from contilab.report import load
from contilab.report.parquet import results_parquet


class TestTables:
    """results.csv and absent.csv."""

    def test_the_columns_are_those_of_the_documentation(self, written):
        """Who the run is, one column per swept key, its state, then every metric, `acc` first."""
        header = next(csv.reader(io.StringIO((written.directory / "results.csv").read_text())))

        first = ["study", "run", "preset", "scenario", "method", "seed", "method.strength", "method.note", "state", "selected"]
        assert header == [*first, *METRICS]

    def test_values_read_back_as_they_were(self, store, written):
        """Every number of the file is the same float that `load` gives, and one row stands for each run."""
        with (written.directory / "results.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        expected = load(store.root, "tiny")

        assert [row["run"] for row in found] == [row["run"] for row in expected]
        assert [[row[n] and float(row[n]) for n in METRICS] for row in found] == [
            ["" if row[n] is None else row[n] for n in METRICS] for row in expected
        ]

    def test_counts_are_integers(self, store):
        """Counts are integers, so that tables do not show 40.0 steps."""
        steps = [row["train_steps"] for row in load(store.root, "tiny") if row["state"] == "finished"]

        assert {type(value) for value in steps} == {int}

    def test_every_empty_metric_has_a_reason(self, written):
        """For each empty cell of results.csv there is a line in absent.csv, and for no other."""
        with (written.directory / "results.csv").open(newline="") as file:
            empty = {(row["run"], name) for row in csv.DictReader(file) for name in METRICS if not row[name]}
        with (written.directory / "absent.csv").open(newline="") as file:
            reasons = {(row["run"], row["metric"]): row["reason"] for row in csv.DictReader(file)}

        assert empty == set(reasons)
        assert all(reasons.values())

    def test_states(self, written):
        """Each run stands under how it ended or how far it is."""
        with (written.directory / "results.csv").open(newline="") as file:
            states = [row["state"] for row in csv.DictReader(file)]

        finished = ["finished"] * 3
        assert states[:9] == [*finished, *finished, "finished", "diverged", "finished"]
        assert states[9:] == ["waiting", "damaged", "damaged", *finished, "finished", "waiting"]


class TestLoad:
    """The door for notebooks."""

    def test_rows_are_plain_values(self, store):
        """An open store or its folder gives rows with seeds, settings and metrics as numbers, and reasons for None."""
        row = load(store, "tiny")[7]

        assert (row["method"], row["seed"], row["state"], row["acc"]) == ("er", 1, "diverged", None)
        assert row["reasons"]["acc"] == "the run diverged in task 2 at step 40"
        assert load(str(store.root), "tiny")[12]["method.strength"] == 10.0

    def test_unknown_names_are_refused(self, store, tmp_path):
        """Another study or a folder without a store gets a sentence."""
        with pytest.raises(UsageError, match='there is no study "huge"'):
            load(store, "huge")
        with pytest.raises(StoreError, match="there is no store here"):
            load(tmp_path, "tiny")


class TestParquet:
    """results.parquet."""

    def test_it_reads_back_as_the_rows(self, store):
        """With pyarrow the rows keep their types: numbers, booleans and None."""
        pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        found = [{name: value for name, value in row.items() if name != "reasons"} for row in load(store, "tiny")]
        again = pyarrow.read_table(io.BytesIO(results_parquet(found))).to_pylist()

        assert [row["acc"] for row in again] == [row["acc"] for row in found]
        assert {row["selected"] for row in again} <= {True, False, None}
        assert [row["seed"] for row in again] == [row["seed"] for row in found]

    def test_without_pyarrow(self, store, monkeypatch):
        """Where pyarrow is not installed there is no such file."""
        monkeypatch.setitem(sys.modules, "pyarrow", None)

        assert results_parquet(load(store, "tiny")) is None


class TestDamage:
    """Results that cannot be used."""

    def test_a_record_of_another_version(self, new_study, monkeypatch):
        """A record that this version cannot read is named with the reason, and its metrics are absent."""
        store = new_study([("p", "naive", [0], {}, "task")])
        monkeypatch.setattr("contilab.records.record.SCHEME", "contilab.record/9")
        row = load(store, "tiny")[0]

        assert (row["state"], row["acc"]) == ("damaged", None)
        assert "this version cannot read its record: the scheme is 'contilab.record/1'" in row["reasons"]["acc"]


class TestIntransigence:
    """The one metric that reads another run."""

    def test_the_cumulative_run_of_the_same_seed_is_found(self, new_study):
        """With a cumulative cell in the preset, each method is measured against its run of the same seed."""
        rows = load(new_study([("p", "naive", [0, 1], {}, "task"), ("p", "cumulative", [0], {}, "task")]), "tiny")

        assert [row["intransigence"] is None for row in rows] == [False, True, False]
        assert rows[0]["intransigence"] == pytest.approx(0.0)
