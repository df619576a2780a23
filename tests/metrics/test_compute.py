"""All metrics of a record: from predictions and costs, with divergence and gaps."""

import copy
import subprocess
import sys

import numpy as np
import pytest

from contilab.errors import InputError
from contilab.metrics.calibration import calibration_error
from contilab.metrics.compute import compute, evidence_of
from contilab.metrics.contract import Absent, Metric
from contilab.metrics.table import METRICS, metric
from contilab.records.record import Cost, Record


def class_record(**changes):
    """Return a class-incremental record of three tasks, two rows and two test samples each."""
    values = {
        "scenario": "class",
        "tasks": 3,
        "head_rows": 6,
        "task_rows": [[0, 1], [2, 3], [4, 5]],
        "test_samples": [2, 2, 2],
        "stages": 3,
        "accuracy": [[1.0, None, None], [0.5, 1.0, None], [0.0, 0.5, 1.0]],
        "baseline": [0.5, 0.5, 0.5],
        "accuracy_all_rows": [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]],
        "cost": Cost(train_steps=12, seconds_group=8.0, members=4, steps_per_second=[3.0, 1.0]),
    }
    return Record(**{**values, **changes})


def predictions():
    """Return predictions that fit `class_record`: row 0 untrained, then one row per stage."""
    return {
        "target": np.array([0, 1, 2, 3, 4, 5], dtype=np.int16),
        "prediction": np.array([[0] * 6, [0, 1, 0, 0, 0, 0], [0, 2, 2, 3, 0, 0], [4, 2, 2, 5, 4, 5]], dtype=np.int16),
        "confidence": np.array([[0.2] * 6, [0.9] * 6, [0.8] * 6, [0.5, 0.5, 1.0, 0.5, 1.0, 1.0]], dtype=np.float32),
    }


class TestMenu:
    """Metrics of a line that a user added."""

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("nowhere_at_all:X", "nowhere_at_all:X cannot be loaded: No module named 'nowhere_at_all'"),
            ("math:nothing", "math:nothing cannot be loaded"),
            ("math:pi", "math:pi is no Metric"),
            ("contilab.metrics.accuracy:ACC", "contilab.metrics.accuracy:ACC: it calls itself acc"),
        ],
    )
    def test_a_line_that_leads_nowhere_is_told(self, monkeypatch, line, problem):
        """A line without a metric of that name is named, with what it points at and the way out."""
        monkeypatch.setitem(METRICS, "late", line)

        with pytest.raises(InputError, match=f"metric late: {problem}"):
            metric("late")

    def test_a_formula_that_fails_leaves_the_others(self, monkeypatch):
        """It is absent with what it raised, and every other metric has its value."""
        before = compute(class_record(), predictions())
        monkeypatch.setattr(f"{compute.__module__}.metric", lambda name: BROKEN if name == "bwt" else metric(name))
        after = compute(class_record(), predictions())

        assert after == {**before, "bwt": Absent("the formula failed: ZeroDivisionError: division by zero")}

    def test_a_lack_of_memory_is_raised(self, monkeypatch):
        """It says something of the machine: with more memory the run has a value."""
        monkeypatch.setattr(f"{compute.__module__}.metric", lambda name: HUNGRY if name == "bwt" else metric(name))

        with pytest.raises(MemoryError):
            compute(class_record(), predictions())


BROKEN = Metric("bwt", lambda _: 1 / 0, "never")
HUNGRY = Metric("bwt", lambda _: (0.0,) * sys.maxsize, "never")


class TestValidation:
    """Accuracy on samples held out of training."""

    def test_last_row(self):
        """It is the mean over tasks after the last one, whatever the test samples say."""
        record = class_record(validation=[[1.0, None, None], [0.0, 1.0, None], [0.25, 0.5, 0.75]])

        assert compute(record)["acc_validation"] == 0.5

    def test_none_held_out(self):
        """Without validation samples it is absent, with the reason."""
        assert compute(class_record())["acc_validation"] == Absent("no validation samples were held out of training")

    def test_diverged(self):
        """A run that diverged in its first task says so, though it left no validation row either."""
        record = class_record(accuracy=[], accuracy_all_rows=[], diverged={"task": 0, "step": 3})

        assert compute(record)["acc_validation"] == Absent("the run diverged in task 0 at step 3")


class TestPredictions:
    """Metrics that read predictions and confidences."""

    def test_calibration_by_hand(self):
        """Five confidences in four bins give the value that was worked out by hand."""
        error = calibration_error(np.array([0.95, 0.85, 0.85, 0.65, 0.55]), np.array([1, 1, 0, 0, 1]))

        assert error == pytest.approx(0.37, abs=1e-12)

    def test_the_edge_of_a_bin_belongs_below(self):
        """A confidence of exactly k/15 lies in the bin that ends there, so its gap does not cancel with the next bin's."""
        error = calibration_error(np.array([1 / 15, 1.5 / 15]), np.array([1, 0]))

        assert error == pytest.approx((14 / 15 + 1.5 / 15) / 2, abs=1e-12)

    def test_ece_of_a_record(self):
        """Three right answers at confidence 1 and three wrong ones at 0.5 miss by a quarter."""
        assert compute(class_record(), predictions())["ece"] == pytest.approx(0.25)

    def test_ece_reads_seen_tasks_only(self):
        """After the first stage two right answers at 0.9 miss by a tenth, whatever is predicted for later tasks."""
        evidence = evidence_of(class_record(), predictions()).until(0)

        assert metric("ece").of(evidence) == pytest.approx(0.1, abs=1e-6)

    def test_recency_bias_by_hand(self):
        """Of four samples of earlier tasks two are predicted as rows of the newest task."""
        assert compute(class_record(), predictions())["recency_bias"] == pytest.approx(0.5)

    def test_recency_bias_leaves_out_shared_rows(self):
        """Samples whose own row belongs to the newest task do not count."""
        record = class_record(task_rows=[[0, 1], [2, 3], [3, 5]])

        assert compute(record, predictions())["recency_bias"] == pytest.approx(0.0)

    def test_recency_bias_needs_a_sample_to_count(self):
        """If every earlier row is one of the newest task's, there is nothing to count."""
        record = class_record(task_rows=[[0, 1], [2, 3], [0, 1, 2, 3]])

        assert compute(record, predictions())["recency_bias"] == Absent("every earlier sample has a row of the newest task")

    def test_recency_bias_after_the_first_task(self):
        """After the first task there is no earlier one, whose samples could be predicted as the newest."""
        evidence = evidence_of(class_record(), predictions()).until(0)

        assert metric("recency_bias").of(evidence) == Absent("one task only")

    @pytest.mark.parametrize("scenario", ["task", "domain"])
    def test_recency_bias_is_class_incremental(self, scenario):
        """In the other scenarios the newest task cannot attract what is not its own."""
        value = compute(class_record(scenario=scenario), predictions())["recency_bias"]

        assert value == Absent("defined for class-incremental runs only")

    @pytest.mark.parametrize("change", ["without", "nan"])
    def test_a_head_without_probabilities_has_no_ece(self, change):
        """Confidences that are missing or not finite make calibration absent."""
        tensors = predictions()
        if change == "without":
            del tensors["confidence"]
        else:
            tensors["confidence"][3, 0] = np.nan

        assert compute(class_record(), tensors)["ece"] == Absent("the head gives no probabilities")

    def test_no_predictions(self):
        """Without tensors the metrics that read them are absent, the others are not."""
        values = compute(class_record())

        assert values["ece"] == values["recency_bias"] == Absent("predictions were not recorded")
        assert values["acc"] == pytest.approx(0.5)


class TestDivergence:
    """A run that diverged has fewer rows."""

    @pytest.mark.parametrize("padding", [[], [[None, None, None]]])
    def test_what_reads_a_lost_row_is_absent(self, padding):
        """Metrics of the last row say when the run diverged, whether lost rows are left out or empty."""
        rows = [[1.0, None, None], [0.5, 1.0, None], *padding]
        tensors = {name: values if name == "target" else values[:3] for name, values in predictions().items()}
        values = compute(class_record(accuracy=rows, accuracy_all_rows=rows, diverged={"task": 2, "step": 40}), tensors)
        lost = Absent("the run diverged in task 2 at step 40")

        assert [values[n] for n in ("acc", "bwt", "aia", "forgetting", "learning_accuracy", "ece", "acc_all")] == [lost] * 7

    def test_rows_before_it_stay(self):
        """The accuracy after the stages that ended is still there."""
        record = class_record(accuracy=[[1.0, None, None], [0.5, 1.0, None]], diverged={"task": 2, "step": 40})

        assert metric("acc").of(evidence_of(record).until(1)) == pytest.approx(0.75)

    def test_predictions_of_a_lost_row(self):
        """Predictions marked as not measured are not counted as wrong answers."""
        tensors = predictions()
        tensors["prediction"][3] = -1

        assert compute(class_record(), tensors)["ece"] == Absent("row 2 was not recorded")


class TestRecords:
    """From a record to a row of results."""

    def test_acc_comes_first_and_nothing_is_left_out(self):
        """The order is that of the menu, and every metric has a value or a reason."""
        values = compute(class_record(), predictions())

        assert list(values) == list(METRICS)
        assert all(isinstance(value, float) or value.reason for value in values.values())

    def test_task_numbers_do_not_matter(self):
        """Rows 3, 7 and 9 of the head, in unequal tasks, give the metrics of their places in the stream."""
        record = class_record(task_rows=[[3], [7], [9]], head_rows=10, test_samples=[1, 5, 2])

        assert compute(record)["acc_seen_micro"] == pytest.approx((0 * 1 + 0.5 * 5 + 1.0 * 2) / 8)

    def test_all_rows_count_unseen_classes_as_errors(self):
        """Accuracy over all tasks after the first one is at most the share of its samples."""
        from contilab.metrics.accuracy import acc_all

        assert acc_all(evidence_of(class_record()), stage=0) == pytest.approx(1 / 3)

    def test_a_missing_evaluation_has_a_reason(self):
        """One evaluation that is absent makes its metrics absent, with the cell."""
        values = compute(class_record(accuracy=[[1.0, None, None], [0.5, None, None], [0.0, 0.5, 1.0]]))

        assert values["bwt"] == Absent("the accuracy on task 1 after task 1 was not measured")

    def test_a_cell_says_why_it_is_absent(self):
        """Above the diagonal of a class-incremental matrix classes are not yet seen; below it a cell was not measured."""
        evidence = evidence_of(class_record(accuracy=[[1.0, None, None], [None, 1.0, None], [0.0, 0.5, 1.0]]))

        assert [evidence.reading(0, 0), evidence.reading(0, 1), evidence.reading(1, 0)] == [
            1.0,
            Absent("classes not yet seen"),
            Absent("the accuracy on task 0 after task 1 was not measured"),
        ]

    def test_costs(self):
        """Costs are read as they are, or per member, or as a mean over tasks."""
        values = compute(class_record())

        assert [values[n] for n in ("train_steps", "seconds_per_run", "steps_per_second_mean")] == [12.0, 2.0, 2.0]

    def test_a_speed_that_was_never_measured(self):
        """A run that ended in its first task has no speed, not a speed of 0."""
        assert compute(class_record(cost=Cost()))["steps_per_second_mean"] == Absent("no task was trained to its end")

    def test_intransigence_against_the_cumulative_run(self):
        """The diagonal of the cumulative run is what could have been learned."""
        cumulative = class_record(accuracy=[[1.0, None, None], [1.0, 1.0, None], [1.0, 1.0, 0.7]])

        assert compute(class_record(), cumulative=cumulative)["intransigence"] == pytest.approx(-0.1)

    def test_scenarios_are_not_compared(self):
        """A task-incremental cumulative run says nothing about a class-incremental run."""
        with pytest.raises(InputError, match="results of different scenarios cannot be compared"):
            compute(class_record(), cumulative=class_record(scenario="task"))

    def test_inputs_are_left_as_they_are(self):
        """Every metric leaves record and tensors unchanged and gives the same value twice."""
        record, tensors = class_record(), predictions()
        before = copy.deepcopy((record, tensors))
        first, second = compute(record, tensors), compute(record, tensors)

        assert first == second
        assert before[0] == record
        assert all(np.array_equal(before[1][name], tensors[name]) for name in tensors)


class TestImports:
    """What the package costs to import."""

    def test_the_menu_loads_no_arrays(self):
        """The door for notebooks and the menu need neither torch nor numpy."""
        code = "import sys, contilab.metrics, contilab.metrics.table; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert out.stdout.strip() == "[]"
