"""Results whose digests fit, but not their shape: of another version, of another tool, or made by hand."""

import dataclasses
from itertools import count

import numpy as np
import pytest

from contilab.metrics.contract import Absent
from contilab.records.record import Cost, Record
from contilab.report.misfit import misfit
from contilab.report.runs import read_runs
from contilab.report.write import write_report

ROWS = [[0.9, 0.2], [0.5, None]]
RECORD = Record(
    scenario="task",
    tasks=2,
    head_rows=4,
    task_rows=[[0, 1], [2, 3]],
    test_samples=[2, 3],
    stages=2,
    accuracy=ROWS,
    baseline=[0.5, 1],
    accuracy_all_rows=ROWS,
    validation=ROWS[:1],
    cost=Cost(steps_per_second=[3.0]),
)
TENSORS = {"target": np.zeros(5), "prediction": np.zeros((3, 5)), "confidence": np.zeros((2, 5))}
FACTS = [
    ({"scenario": "class"}, "it is class-incremental, and planned as task-incremental"),
    ({"scenario": None}, "it is None-incremental, and planned as task-incremental"),
    ({"stages": 0}, "it has 0 stages for 2 tasks"),
    ({"stages": 3}, "it has 3 stages for 2 tasks"),
    ({"tasks": "2"}, "it has 2 stages for 2 tasks"),
    *(
        ({"accuracy": rows}, "accuracy is no matrix of fractions of 2 x 2")
        for rows in (5, [[0.5]], ROWS * 2, [["a"] * 2], [[7.0] * 2])
    ),
    ({"accuracy": [[float("nan")] * 2]}, "accuracy is no matrix of fractions of 2 x 2"),
    ({"accuracy_all_rows": [5]}, "accuracy_all_rows is no matrix of fractions of 2 x 2"),
    ({"accuracy_task_aware": {}}, "accuracy_task_aware is no matrix of fractions of 2 x 2"),
    ({"validation": [[True, 0.5]]}, "validation is no matrix of fractions of 2 x 2"),
    *(({"baseline": row}, "baseline is no row of 2 fractions") for row in ([], None, [0.5, 10**400])),
    *(({"test_samples": sizes}, "test_samples are no numbers of samples of 2 tasks") for sizes in ([2], [2, 0], 5)),
    *(({"task_rows": rows}, "task_rows are no rows of 2 tasks") for rows in ([], [0, 1])),
    *(({"diverged": place}, "diverged names no task and step") for place in ({"task": 1}, 5, {"task": 1, "step": "x"})),
    ({"notes": [1]}, "notes are no table"),
    ({"cost": Cost(members=0)}, "cost.members is no number"),
    ({"cost": Cost(flops=None)}, "cost.flops is no number"),
    ({"cost": Cost(steps_per_second=[None])}, "cost.steps_per_second is no number"),
]


class TestClauses:
    """What is said of one record."""

    def test_nothing_of_one_that_fits(self):
        """Rows that were lost, cells that were not measured and tensors that are not there fit."""
        assert misfit(RECORD, TENSORS, "task") == ""
        assert misfit(dataclasses.replace(RECORD, stages=1, accuracy=[], accuracy_all_rows=[]), {}, "task") == ""

    @pytest.mark.parametrize(("change", "clause"), FACTS)
    def test_of_facts(self, change, clause):
        """Each fact that formulas and figures rely on is looked at, whatever stands in its place."""
        assert misfit(dataclasses.replace(RECORD, **change), {}, "task") == clause

    @pytest.mark.parametrize(
        ("name", "shape", "clause"),
        [
            ("target", (4,), "target is not of 5 test samples"),
            ("prediction", (5,), "prediction is not of 5 test samples after each stage"),
            ("confidence", (3, 4), "confidence is not of 5 test samples after each stage"),
            ("prediction_all_rows", (4, 5), "prediction_all_rows is not of 5 test samples after each stage"),
        ],
    )
    def test_of_tensors(self, name, shape, clause):
        """Predictions are of the test samples, in at most one row more than there are stages."""
        assert misfit(RECORD, {**TENSORS, name: np.zeros(shape)}, "task") == clause


SPOILT = [
    lambda found: found._replace(record=dataclasses.replace(found.record, accuracy=[[0.5]])),
    lambda found: found._replace(record=dataclasses.replace(found.record, scenario="class")),
    lambda found: found._replace(tensors={**found.tensors, "prediction": np.zeros(3)}),
    lambda found: found._replace(
        record=dataclasses.replace(found.record, notes={"stream": {"schedule": "of another version"}})
    ),
    lambda found: found._replace(
        tensors={
            **found.tensors,
            "learning_curve": np.ones(3),
            "stream_task": np.array([0, 9]),
            **STREAM,
            "cka": np.ones((2, 2, 2)),
        }
    ),
]
STREAM = {"stream_accuracy": np.ones((2, 4)), "stream_step": np.array([0, 1]), "stream_old_mask": np.zeros(2, dtype=bool)}


class TestReports:
    """What a report says of a study with such results."""

    def test_they_are_named_and_every_other_number_stands(self, new_study, tmp_path):
        """What does not fit is damaged, with the clause; what lacks a detail only counts, and nothing else changes."""
        cells = [("p", "naive", [0, 1, 2, 3, 4, 5], {}, "task"), ("p", "er", [0], {}, "task")]
        place = count()

        def spoil(run, found):
            seed = next(place)
            return SPOILT[seed](found) if run.method.name == "naive" and seed < len(SPOILT) else found

        store = new_study(cells, change=spoil, versions=["of another kind"])
        left = new_study(cells)
        found, plain = (read_runs(one, one.study("tiny")) for one in (store, left))
        written = write_report(store.root, "tiny", tmp_path / "out")

        assert [run.state for run in found] == ["damaged"] * 3 + ["finished"] * 4
        assert found[0].problem == "this version cannot read its record: accuracy is no matrix of fractions of 4 x 4"
        assert found[4].values["min_acc"] == Absent("the evaluation stream is not of tasks in their order")
        assert found[4].values["lca_10"].reason.startswith("the formula failed: IndexError")
        assert [run.values["acc"] for run in found[3:]] == [run.values["acc"] for run in plain[3:]]
        assert [run.values for run in found[5:]] == [run.values for run in plain[5:]]
        assert "3 of 7 runs have no result: damaged" in written.path.read_text()
