"""Metrics that are computed after training, of the menu and of a user."""

import csv
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from contilab.errors import InputError, StoreError, UsageError
from contilab.metrics.contract import Metric, Missing
from contilab.metrics.table import METRICS
from contilab.report import load
from contilab.report.derive import chosen_metrics, derive
from contilab.report.write import write_report

CELLS = [("p", "naive", [0, 1], {}, "task"), ("p", "joint", [0, 1], {}, "task")]

SOURCE = '''
import numpy as np

from contilab.metrics.contract import Metric
from contilab.metrics.kept import kept


def worst(evidence):
    """Return the accuracy on the task that fares worst at the end."""
    return min(evidence.cell(evidence.last, task) for task in range(evidence.tasks))


WORST = Metric("worst", worst, "accuracy on the worst <task>", ("stages",))
BROKEN = Metric("broken", lambda evidence: 1 / 0, "never")
NAMELESS = Metric("No name", worst, "never")


def spread(evidence):
    """Return the distance of the mean features of the first two tasks, at the end."""
    features, task = kept(evidence, "features_tested")[-1], kept(evidence, "tasks_tested")
    return np.linalg.norm(features[task == 0].mean(0) - features[task == 1].mean(0))


SPREAD = Metric("spread", spread, "distance of two tasks", unit="norm", tier="extended")
TAKEN = Metric("acc", worst, "never")
UNIT = Metric("odd", worst, "never", unit=5)
NEEDS = Metric("odd", worst, "never", ("two_rows", "a_miracle"))
NEED = Metric("odd", worst, "never", "sizes")
TIER = Metric("odd", worst, "never", tier="none")
BETTER = Metric("odd", worst, "never", higher_is_better="yes")
VERSION = Metric("odd", worst, "never", version=0)
UNCALLABLE = Metric("odd", 0.5, "never")
NUMBERED = Metric(5, worst, "never")
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file of the user with metrics, in the working directory, under a module name of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("sys.path", [*sys.path])
    name = f"own_{abs(hash(tmp_path))}"
    (tmp_path / "here" / f"{name}.py").write_text(SOURCE)
    return name


def with_features(run, outcome):
    """Return *outcome* with features that were kept: of a run with the seed s, tasks are 3 + s apart; joint kept none."""
    if run.method.name == "joint":
        return outcome
    features = np.zeros((4, 4, 2), dtype=np.float32)
    features[-1, 2:, 0] = 3 + run.seed
    return outcome._replace(kept={"features_tested": features, "tasks_tested": np.array([0, 0, 1, 1])})


class TestOwn:
    """A metric of the user: one file, no training."""

    def test_it_appears_everywhere(self, new_study, own, tmp_path, no_figures):
        """Rows, CSV, Markdown and HTML of an old study show it, with the reason where a run has none."""
        store = new_study(CELLS)
        [found] = derive(store, "tiny", chosen_metrics([f"{own}:WORST"]))
        done = write_report(store.root, "tiny", tmp_path / "out")
        with (done.directory / "results.csv").open(newline="") as file:
            written = [row["worst"] for row in csv.DictReader(file)]

        assert (found.values, found.absent) == (2, {"joint has one training stage": 2})
        assert [row["worst"] for row in load(store, "tiny")] == [0.05, 0.04, None, None]
        assert written == ["0.05", "0.04", "", ""]
        assert "| worst (fraction ↑) | 0.0450" in (done.directory / "report.md").read_text()
        assert "accuracy on the worst &lt;task&gt;" in done.path.read_text()

    def test_a_catalog_line_is_enough(self, new_study, own, monkeypatch, tmp_path, no_figures):
        """With a line in the menu every report computes it: in CSV, Markdown and HTML, nothing kept beside the results."""
        store = new_study(CELLS)
        before = {path: path.read_bytes() for path in store.layout.results.rglob("*") if path.is_file()}
        monkeypatch.syspath_prepend(Path.cwd())
        monkeypatch.setitem(METRICS, "worst", f"{own}:WORST")
        done = write_report(store.root, "tiny", tmp_path / "out")
        names = ("results.csv", "absent.csv", "report.md", "report.html")
        results, absent, markdown, page = ((done.directory / name).read_text() for name in names)
        [reason] = {row["reason"] for row in csv.DictReader(absent.splitlines()) if row["metric"] == "worst"}

        assert [row["worst"] for row in csv.DictReader(results.splitlines())] == ["0.05", "0.04", "", ""]
        assert reason == "joint has one training stage"
        assert re.search(r"^\| worst \(fraction ↑\) \| 0\.0450 \(sd 0\.0071, n 2\) \| – \([a-z]\) \|$", markdown, re.MULTILINE)
        assert re.search(r'>worst<small>fraction ↑</small></th>\s*<td [^>]*data-sort="0\.045"[^>]*>0\.0450<', page)
        assert "accuracy on the worst &lt;task&gt;" in page
        assert load(store, "tiny")[0]["worst"] == 0.05
        assert before == {path: path.read_bytes() for path in store.layout.results.rglob("*") if path.is_file()}
        assert not store.layout.derived.exists()

    @pytest.mark.usefixtures("no_figures")
    @pytest.mark.parametrize("way", ["metrics --add", "a line of the menu"])
    def test_of_features(self, new_study, own, monkeypatch, tmp_path, way):
        """A metric of features is worked out from what an old study kept; a run that kept none says what it needs."""
        store, results = new_study(CELLS, change=with_features), {}
        monkeypatch.syspath_prepend(Path.cwd())
        if way == "metrics --add":
            derive(store, "tiny", chosen_metrics([f"{own}:SPREAD"]))
        else:
            monkeypatch.setitem(METRICS, "spread", f"{own}:SPREAD")
        done = write_report(store.root, "tiny", tmp_path / "out")
        for name in ("results.csv", "absent.csv"):
            results[name] = list(csv.DictReader((done.directory / name).read_text().splitlines()))
        reasons = {row["reason"] for row in results["absent.csv"] if row["metric"] == "spread"}

        assert [row["spread"] for row in results["results.csv"]] == ["3.0", "4.0", "", ""]
        assert reasons == {"features_tested was not kept: it needs eval.keep_features = true"}
        assert "distance of two tasks" in done.path.read_text()

    def test_a_formula_that_fails_is_told(self, new_study, own):
        """An exception of the formula names the metric, the run and the way out."""
        with pytest.raises(InputError, match=r"broken: the formula failed on run .*: ZeroDivisionError"):
            derive(new_study(CELLS), "tiny", chosen_metrics([f"{own}:BROKEN"]))

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("forgeting", 'there is no metric "forgeting"'),
            ("nowhere_at_all:X", "nowhere_at_all:X cannot be loaded"),
            ("{own}:NOTHING", "cannot be loaded"),
            ("{own}:NAMELESS", "is no Metric with a name"),
            ("{own}:TAKEN", 'has the name of another metric, "acc"'),
            ("math:pi", "math:pi is no Metric"),
            ("../{own}:WORST", "cannot be loaded"),
            ("{own}:UNIT", "its unit is no text"),
            ("{own}:NEEDS", "its needs are no tuple of known ones: a_miracle"),
            ("{own}:NEED", "its needs are no tuple of known ones: sizes"),
            ("{own}:TIER", "its tier is none of core, extended, full"),
            ("{own}:BETTER", "its higher_is_better is not True, False or None"),
            ("{own}:VERSION", "its version is no whole number from 1 to 999999"),
            ("{own}:UNCALLABLE", "its function cannot be called"),
            ("{own}:NUMBERED", "is no Metric with a name"),
        ],
    )
    def test_what_is_no_metric_is_refused(self, own, name, problem):
        """Unknown names, missing modules and things that are no metric get a sentence."""
        with pytest.raises(UsageError, match=problem):
            chosen_metrics([name.format(own=own)])

    def test_a_file_that_ends_python_is_told(self, own):
        """A file that calls sys.exit is a fault of that file, and does not end contilab without a word."""
        Path(f"{own}_exit.py").write_text("raise SystemExit(5)")

        with pytest.raises(UsageError, match="cannot be loaded: 5"):
            chosen_metrics([f"{own}_exit:X"])


class TestKept:
    """What lies in the store."""

    def test_each_value_is_written_once(self, new_study):
        """The same metric twice is fine, and its file holds value, meaning and version."""
        store = new_study(CELLS)
        first, again = (derive(store, "tiny", chosen_metrics(["bwt"])) for _ in range(2))
        rid = load(store, "tiny")[0]["run"]
        table = json.loads((store.layout.derived / rid / "bwt.1.json").read_text())

        assert first == again
        assert table["v"] == "contilab.derived/1"
        assert table["value"] == load(store, "tiny")[0]["bwt"]
        assert table["unit"] == "difference"

    def test_other_numbers_need_another_version(self, new_study):
        """A changed formula is refused under the old version; under a new one both are kept and the newest is shown."""
        store = new_study([("p", "naive", [0], {}, "task")])
        metric = Metric("mine", lambda _: 1.0, "one")
        derive(store, "tiny", [metric])
        with pytest.raises(StoreError, match=r"mine of run .* was computed before with another result"):
            derive(store, "tiny", [metric._replace(function=lambda _: 2.0)])
        derive(store, "tiny", [metric._replace(function=lambda _: 3.0, version=2)])

        assert load(store, "tiny")[0]["mine"] == 3.0

    @pytest.mark.parametrize(
        "change",
        [
            *({"value": value} for value in (math.nan, math.inf, 10**400, True, None, "1.5", [1])),
            *({"value": None, "unit": unit} for unit in (5, ["fraction"])),
            *({name: 5} for name in ("summary", "paper", "tier", "higher_is_better", "is_of_group")),
            {"version": "1"},
            {"metric": "other"},
            {"v": "contilab.derived/9"},
        ],
    )
    def test_a_damaged_file_is_left_out(self, new_study, change):
        """What is not described as a metric is none, whatever stands in its file."""
        store = new_study([("p", "naive", [0], {}, "task")])
        derive(store, "tiny", [Metric("mine", lambda _: 1.0, "one")])
        [path] = store.layout.derived.rglob("*.json")
        table = json.loads(path.read_text())
        path.write_text(json.dumps({**table, **change}))

        assert "mine" not in load(store, "tiny")[0]
        path.write_text(json.dumps(table)[:-1])
        assert "mine" not in load(store, "tiny")[0]
        path.write_text(json.dumps(table))
        assert load(store, "tiny")[0]["mine"] == 1.0

    def test_characters_that_no_page_may_hold_are_marked(self, new_study, tmp_path, no_figures):
        """Texts of the user come with marks in their place, also where a file holds what no encoding writes."""
        store = new_study([("p", "naive", [0], {}, "task")])

        def formula(_):
            raise Missing("no \udcff at all")

        derive(store, "tiny", [Metric("mine", formula, "one\x1b[31m")])
        [path] = store.layout.derived.rglob("*.json")
        path.write_text(path.read_text().replace("one", "\\ud800"))
        done = write_report(store.root, "tiny", tmp_path / "out")

        assert load(store, "tiny")[0]["reasons"]["mine"] == "no \ufffd at all"
        assert "\ufffd\ufffd[31m" in done.path.read_text()

    def test_a_run_that_came_later_has_a_reason(self, new_study, no_figures):
        """A run without the metric beside others that have it says how to compute it."""
        store = new_study([("p", "naive", [0, 1], {}, "task")])
        derive(store, "tiny", [Metric("mine", lambda _: 1.0, "one")])
        next(iter((store.layout.derived / load(store, "tiny")[1]["run"]).iterdir())).unlink()

        assert [row["mine"] for row in load(store, "tiny")] == [1.0, None]
        with (write_report(store.root, "tiny").directory / "absent.csv").open(newline="") as file:
            [reason] = [row["reason"] for row in csv.DictReader(file) if row["metric"] == "mine"]
        assert reason.startswith("it was not computed for this run")


class TestContract:
    """What no metric may give."""

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_value_is_finite(self, value):
        """A formula that gives nan or infinity has no value, but a reason."""
        assert Metric("m", lambda _: value, "").of(None).reason == "the formula has no finite value here"

    def test_missing_is_a_reason(self):
        """A formula says by Missing why there is no value."""

        def formula(_):
            raise Missing("no reason at all")

        assert Metric("m", formula, "").of(None).reason == "no reason at all"


class TestTiers:
    """Metrics by how much must be recorded."""

    def test_a_tier_is_a_set_of_names(self):
        """Every metric of the core tier is chosen at once, those that were named first."""
        assert [item.name for item in chosen_metrics(["ece"], "core")][:2] == ["ece", "acc"]

    def test_nothing_chosen(self):
        """Without a name there is nothing to compute."""
        with pytest.raises(UsageError, match="no metric was named"):
            chosen_metrics([])
