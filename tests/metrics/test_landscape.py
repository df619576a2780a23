"""When the metrics of the tier full have no value, and why."""

import numpy as np
import pytest

from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent
from contilab.records.record import Record

NAN = float("nan")
METRICS = ("loss_barrier", "grad_cosine", "interference", "few_shot_recovery")


def three_tasks(**changes):
    """Return a record of three tasks, each of which loses something."""
    rows = [[0.9, 0.5, 0.5], [0.6, 0.9, 0.5], [0.5, 0.7, 0.9]]
    facts = {"scenario": "task", "tasks": 3, "head_rows": 6, "task_rows": [[0, 1], [2, 3], [4, 5]], "test_samples": [5, 5, 5]}
    values = {"accuracy": rows, "accuracy_all_rows": rows, "baseline": [0.5, 0.5, 0.5], "stages": 3}
    return Record(**{**facts, **values, **changes})


def measured(**changes):
    """Return what the engine measured of it."""
    cosine = np.full((3, 3, 3), NAN)
    cosine[0, 0, 0] = 1
    cosine[1, :2, :2] = [[1, 0.5], [0.5, 1]]
    cosine[2] = [[1, -0.1, 0.2], [-0.1, 1, -0.4], [0.2, -0.4, 1]]
    line = np.array([1.0, *[1.5] * 9, 1.0])
    found = {
        "interpolation_loss": np.array([line, np.ones(11)]),
        "gradient_cosine": cosine,
        "few_shot_accuracy": np.array([0.7, 0.8]),
    }
    return {**found, **changes}


class TestValues:
    """Metrics of a complete record."""

    def test_by_hand(self):
        """Means over tasks, over the pairs of all stages, and over tasks that lost something."""
        values = compute(three_tasks(), measured())

        assert {name: values[name] for name in METRICS} == pytest.approx(
            {"loss_barrier": 0.25, "grad_cosine": 0.05, "interference": 0.5, "few_shot_recovery": 0.5}, abs=1e-12
        )

    @pytest.mark.parametrize(("lost", "shown"), [(0.009, Absent("nothing was lost")), (0.011, pytest.approx(4.0, abs=1e-9))])
    def test_a_loss_must_be_large_enough(self, lost, shown):
        """A task that lost less than .01 has no share that comes back; of one that lost more the share may be above 1."""
        rows = [[0.9, 0.5], [0.9 - lost, 0.9]]
        record = three_tasks(tasks=2, stages=2, task_rows=[[0, 1], [2, 3]], test_samples=[5, 5], accuracy=rows)
        again = np.array([0.9 - lost + 4 * 0.011])

        assert compute(record, {"few_shot_accuracy": again})["few_shot_recovery"] == shown

    def test_tasks_that_lost_too_little_do_not_count(self):
        """The mean is over the tasks that lost something: here task 1 alone, of which a half came back."""
        rows = [[0.9, 0.5, 0.5], [0.9, 0.9, 0.5], [0.891, 0.7, 0.9]]

        assert compute(three_tasks(accuracy=rows), measured())["few_shot_recovery"] == pytest.approx(0.5, abs=1e-12)


class TestAbsent:
    """Metrics without a value."""

    def test_a_zero_gradient(self):
        """Where a task begun has no gradient, cosines are not defined, though others are there."""
        cosine = measured()["gradient_cosine"]
        cosine[2, 0] = cosine[2, :, 0] = NAN
        values = compute(three_tasks(), measured(gradient_cosine=cosine))

        assert {values[name] for name in ("grad_cosine", "interference")} == {Absent("a gradient is zero")}

    @pytest.mark.parametrize("name", METRICS)
    def test_a_diverged_run(self, name):
        """What was measured before a run diverged gives no value."""
        lost = {key: np.full_like(value, NAN) for key, value in measured().items() if key != "gradient_cosine"}
        record = three_tasks(diverged={"task": 2, "step": 4}, accuracy=three_tasks().accuracy[:2])

        assert compute(record, measured(**lost))[name] == Absent("the run diverged in task 2 at step 4")

    @pytest.mark.parametrize("name", ["loss_barrier", "grad_cosine", "interference"])
    def test_parameters_that_are_not_kept(self, name):
        """A run whose parameters were too large says so, and nothing of a missing tier."""
        nothing = {"interpolation_loss": np.empty((0, 11)), "gradient_cosine": np.empty((0, 3, 3))}

        assert compute(three_tasks(), measured(**nothing))[name] == Absent(
            "the parameters of so many tasks, or so large ones, are not kept"
        )

    def test_steps_that_diverge(self):
        """A task that is lost while it is learned again leaves nothing to say of all."""
        values = compute(three_tasks(), measured(few_shot_accuracy=np.array([NAN, 0.8])))

        assert values["few_shot_recovery"] == Absent("few_shot_accuracy is not defined for this run")
