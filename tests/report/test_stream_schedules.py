"""Streams that were evaluated by different schedules: marked where they stand beside each other, and never compared."""

import json

import numpy as np
import pytest

from contilab.metrics.contract import Absent
from contilab.metrics.stream import Stream
from contilab.metrics.table import metric
from contilab.records.record import Record
from contilab.report.benchmark import benchmarks
from contilab.report.cautions import Found, cautions
from contilab.report.comparison import Paired, family
from contilab.report.figures.stream import stream
from contilab.report.figures.svg import styled
from contilab.report.protocol import Protocol
from contilab.report.runs import RunReport
from contilab.report.schedule import STREAM_METRICS, differing, schedule_of
from contilab.report.table import every_metric
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

DENSE = {"schedule": "dense", "dense_steps": 50, "growth": 1.2, "samples": [900, 1000]}
SPARSE = {"schedule": "sparse", "dense_steps": 10, "growth": 1.5, "samples": [900, 1000]}
FEWER = {**DENSE, "samples": [500, 500]}
IN_WORDS = {
    "dense": "dense (each step to 50, then growing by 1.2) on 1000 samples of a task",
    "sparse": "sparse (each step to 10, then growing by 1.5) on 1000 samples of a task",
    "fewer": "dense (each step to 50, then growing by 1.2) on 500 samples of a task",
}


def runs_of(method, schedule):
    """Return two runs of *method* with a stream that was evaluated by *schedule*; None: without one, as of joint training."""
    cell = Cell(preset="p", benchmark="b", scenario="class", method=method, sweep={}, execution=Execution(), runs={})
    facts = {"tasks": 2, "head_rows": 2, "task_rows": [[0], [1]], "test_samples": [10] * 2, "stages": 2}
    rows = {"accuracy": [[0.5] * 2] * 2, "baseline": [0.5] * 2, "accuracy_all_rows": [[0.5] * 2] * 2}
    record = Record(scenario="class", **facts, **rows, notes={"stream": schedule} if schedule else {})
    values = {"acc": 0.5, "min_acc": 0.3 if schedule else Absent("joint has one training stage")}
    looked = Stream(np.array([[0.9, np.nan], [0.4, 0.9]]), np.array([0, 1]), np.array([9, 9]), np.array([False, False]))
    found = {"record": record, "stream": looked if schedule else None}
    return [RunReport(cell, seed, f"{method}{seed}", "finished", values=values, **found) for seed in (0, 1)]


def arranged(**schedules):
    """Return the benchmark of methods with these schedules, by name."""
    [benchmark] = benchmarks([run for method, schedule in schedules.items() for run in runs_of(method, schedule)])
    return benchmark


def marks_of(benchmark):
    """Return, by metric, the marks of each variant in the table of every metric."""
    return {line.head: [entry.marks for entry in line.entries] for line in every_metric(benchmark).lines}


def told(benchmark):
    """Return the cautions of *benchmark*, by the beginning of their text."""
    found = Found(benchmark, Protocol({}, {}), (), ())
    return {notice.text.split(":")[0]: notice.items for notice in cautions([found], ())}


class TestWords:
    """What is said of a schedule."""

    @pytest.mark.parametrize("found", [{"schedule": "dense"}, {**DENSE, "samples": []}, {**DENSE, "samples": 900}])
    def test_one_of_another_version_is_told_as_it_is_written(self, found):
        """A record that says it otherwise has no words of ours, and is never taken for the same schedule."""
        [run, _] = runs_of("er", found)

        assert schedule_of(run) == json.dumps(found)
        assert " for er" in " ".join(differing(arranged(naive=DENSE, er=found).variants))


class TestTables:
    """Values beside each other."""

    @pytest.mark.parametrize(("other", "words"), [(SPARSE, IN_WORDS["sparse"]), (FEWER, IN_WORDS["fewer"])])
    def test_each_value_is_marked_with_its_schedule(self, other, words):
        """Where steps or samples differ, a stream metric carries the schedule of each variant, and other metrics none."""
        benchmark = arranged(naive=DENSE, er=other, ewc=DENSE)
        notes = dict(every_metric(benchmark).notes)

        assert marks_of(benchmark) == {"acc": [(), (), ()], "min_acc": [("a",), ("b",), ("a",)]}
        assert notes["a"] == f"never compared with another schedule; this is {IN_WORDS['dense']}"
        assert notes["b"] == f"never compared with another schedule; this is {words}"

    def test_one_schedule_has_no_mark(self):
        """Where all streams have one schedule nothing is marked but what is absent, as of joint training."""
        benchmark = arranged(naive=DENSE, er=DENSE, joint=None)

        assert marks_of(benchmark)["min_acc"] == [(), (), ("a",)]
        assert dict(every_metric(benchmark).notes)["a"] == "joint has one training stage"

    def test_every_metric_of_a_stream_is_known(self):
        """The metrics that read streams or learning curves, and no others."""
        windows = {f"{kind}_{size}" for kind in ("wf", "wp") for size in (10, 100)}
        recovery = {"stability_gap", "gap_recovered", "recovery_steps", "never_recovered_share"}

        assert {"min_acc", "wc_acc", "anytime_acc", "lca_10"} | windows | recovery == STREAM_METRICS


class TestComparisons:
    """Tests of differences."""

    @pytest.mark.parametrize(("other", "words"), [(SPARSE, IN_WORDS["sparse"]), (FEWER, IN_WORDS["fewer"])])
    def test_different_schedules_are_refused(self, other, words):
        """No difference is taken, the reason names both schedules, and the family does not count the pair."""
        naive, er, ewc = arranged(naive=DENSE, er=other, ewc=DENSE).variants
        found = family(metric("min_acc"), [(naive, er), (naive, ewc)], "naive")
        reason = f"naive and er have streams of different schedules: {IN_WORDS['dense']}, {words}"

        assert found.comparisons[0].found == Absent(reason)
        assert isinstance(found.comparisons[1].found, Paired)
        assert found.size == 1

    def test_other_metrics_are_compared(self):
        """What reads no stream does not depend on its schedule."""
        found = family(metric("acc"), [arranged(naive=DENSE, er=SPARSE).variants], "naive")

        assert isinstance(found.comparisons[0].found, Paired)


class TestWarnings:
    """What a reader is told."""

    def test_a_caution_names_both(self):
        """The caution says which methods have which schedule; with one schedule there is none."""
        name = "Evaluation streams of different schedules"
        items = told(arranged(naive=DENSE, er=SPARSE, ewc=DENSE, joint=None))[name]

        assert items == (f"p: {IN_WORDS['dense']} for naive, ewc", f"p: {IN_WORDS['sparse']} for er")
        assert name not in told(arranged(naive=DENSE, er=DENSE, joint=None))

    def test_the_figure_says_so(self):
        """The lines of both stand in one figure, whose caption forbids to compare their depths."""
        with styled():
            apart, alike = (stream("k", arranged(naive=DENSE, er=other)) for other in (SPARSE, DENSE))
        sentence = f"never compare how deep the lines fall: {IN_WORDS['dense']} for naive; {IN_WORDS['sparse']} for er."

        assert apart.caption.endswith(sentence)
        assert "Schedules differ" not in alike.caption
