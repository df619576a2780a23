"""The matrix metrics, against values worked out by hand."""

import pytest

from contilab.metrics import Absent, from_matrix
from contilab.metrics.contract import Evidence
from contilab.metrics.forgetting import _all_rows, _first_row, _rows_with_final, per_task
from contilab.metrics.table import METRICS, metric

R = [[0.90, 0.87, 0.14], [0.92, 0.86, 0.22], [0.64, 0.88, 0.90]]
B = [0.08, 0.11, 0.12]
N = [100, 300, 200]
A = [0.93, 0.90, 0.95]
EVIDENCE = Evidence("task", 3, 3, tuple(map(tuple, R)), sizes=tuple(N))

WORKED = {
    "acc": 0.806667,
    "acc_seen_macro": 0.806667,
    "acc_seen_micro": 0.846667,
    "acc_all": 0.846667,
    "aia": 0.865556,
    "aia_micro": 0.873889,
    "learning_accuracy": 0.886667,
    "bwt": -0.12,
    "bwt_all_pairs": -0.073333,
    "fwt": 0.43,
    "fwt_no_baseline": 0.545,
    "forgetting": 0.13,
    "forgetting_all_rows": 0.135,
    "forgetting_first_last": 0.12,
    "forgetting_max_incl_final": 0.14,
    "relative_forgetting": 0.140546,
    "intransigence": 0.04,
}


class TestWorkedExample:
    """The example of the specification, three tasks with all cells measured."""

    @pytest.mark.parametrize(("name", "expected"), WORKED.items())
    def test_every_value_of_the_example(self, name, expected):
        """Each formula gives the value that was worked out by hand."""
        values = from_matrix(R, baseline=B, scenario="domain", sizes=N, cumulative=A)

        assert values[name] == pytest.approx(expected, abs=5e-7)

    def test_the_example_names_every_matrix_metric(self):
        """No matrix metric of the menu is without a worked value, and `acc` comes first."""
        values = from_matrix(R, baseline=B, scenario="task", sizes=N, cumulative=A)

        assert list(WORKED) == list(values)

    @pytest.mark.parametrize(
        ("name", "expected"), [("acc_seen_macro", [0.900, 0.890, 0.806667]), ("acc_seen_micro", [0.900, 0.875, 0.846667])]
    )
    def test_a_metric_of_the_last_row_can_be_taken_at_any_row(self, name, expected):
        """The evidence as it was after stage i gives the metric at row i."""
        series = [metric(name).of(EVIDENCE.until(stage)) for stage in range(3)]

        assert series == pytest.approx(expected, abs=5e-7)

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [(None, [0.28, -0.02]), (_all_rows, [0.28, -0.01]), (_first_row, [0.26, -0.02]), (_rows_with_final, [0.28, 0.0])],
    )
    def test_forgetting_per_task_in_each_reading(self, rows, expected):
        """The four readings differ in the rows that count as what was known before."""
        values = per_task(EVIDENCE, rows) if rows else per_task(EVIDENCE)

        assert values == pytest.approx(expected, abs=5e-7)


class TestPublicReports:
    """Inputs that other tools got wrong."""

    def test_no_task_is_missing_from_the_sum_and_the_last_is_not_counted(self):
        """Accuracy, backward transfer and forgetting of the reported matrix have the values of their papers."""
        values = from_matrix([[0.9, 0, 0], [0.95, 0.8, 0], [0.7, 0.6, 0.9]], scenario="task")

        assert [values["acc"], values["bwt"], values["forgetting"]] == pytest.approx([0.733333, -0.2, 0.225], abs=5e-7)

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_one_task_has_no_differences(self, scenario):
        """With one task the difference metrics are absent, not 0, and the accuracies are there."""
        values = from_matrix([[0.7]], baseline=[0.1], scenario=scenario, sizes=[10], cumulative=[0.8])
        present = {name for name, value in values.items() if not isinstance(value, Absent)}
        reasons = {value.reason for value in values.values() if isinstance(value, Absent)}

        assert present - {"acc_all"} == {"acc", "acc_seen_macro", "acc_seen_micro", "learning_accuracy"}
        assert reasons <= {"one task only", "one row only", "the argmax over all rows of the head was not recorded"}

    def test_a_missing_cell_is_named(self):
        """A metric that reads a cell without a measurement is absent and says which cell; the others keep their values."""
        values = from_matrix([[0.9, None], [float("nan"), 0.8]], scenario="task")

        assert values["bwt"] == Absent("the accuracy on task 0 after task 1 was not measured")
        assert values["learning_accuracy"] == pytest.approx(0.85)

    def test_two_tasks_by_hand(self):
        """With two tasks every reading of forgetting is the loss on the first task."""
        values = from_matrix([[0.9, 0.5], [0.6, 0.8]], scenario="task")
        readings = [value for name, value in values.items() if name.startswith("forgetting")]

        assert readings == pytest.approx([0.3] * 4)

    @pytest.mark.parametrize("tasks", [1, 3, 20])
    def test_any_number_of_tasks(self, tasks):
        """The mean accuracy is that of the last row for one, three and twenty tasks."""
        rows = [[(after + on) / 100 for on in range(tasks)] for after in range(tasks)]

        assert from_matrix(rows, scenario="domain")["acc"] == pytest.approx(sum(rows[-1]) / tasks)


class TestAbsence:
    """A metric that is not defined has no value and a reason."""

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_joint_training_has_one_stage(self, scenario):
        """With one row for several tasks, whatever needs an earlier row is absent, and what does not is there."""
        values = from_matrix([[0.9, 0.8]], baseline=[0.5, 0.5], scenario=scenario, sizes=[10, 30], cumulative=[0.9, 0.9])
        of_one_row = {"acc", "acc_seen_macro", "acc_seen_micro", "acc_all", "aia", "aia_micro"}

        assert values["acc"] == pytest.approx(0.85)
        assert {values[name] for name in WORKED.keys() - of_one_row} == {Absent("joint has one training stage")}
        assert values["aia"] == values["aia_micro"] == Absent("one row only")

    def test_class_incremental_has_no_forward_transfer(self):
        """In class-incremental runs a task's classes are masked before they are learned."""
        values = from_matrix([[0.9, None], [0.5, 0.8]], baseline=[0.5, 0.5], scenario="class")
        masked = Absent("a task's classes are masked before it is learned")

        assert [values[name] for name in ("fwt", "fwt_no_baseline", "forgetting_all_rows")] == [masked] * 3

    def test_relative_forgetting_needs_something_to_lose(self):
        """A best accuracy of 0 leaves no share to compute."""
        values = from_matrix([[0.0, 0.5], [0.5, 0.8]], scenario="task")

        assert values["relative_forgetting"] == Absent("the best accuracy on task 0 is 0")

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("fwt", "the untrained model was not measured"),
            ("acc_seen_micro", "the number of test samples of each task is not known"),
            ("intransigence", "no cumulative run with this seed and preset in the study"),
        ],
    )
    def test_what_was_not_given_is_the_reason(self, name, reason):
        """Without its companion of the matrix a metric is absent, with that reason."""
        assert from_matrix(R, scenario="task")[name] == Absent(reason)

    @pytest.mark.parametrize("companion", ["baseline", "cumulative"])
    def test_a_gap_in_a_companion_is_named(self, companion):
        """A companion that was not measured on one task makes its metric absent with that task."""
        values = from_matrix(R, scenario="task", **{companion: [0.1, None, 0.1]})
        value = values["fwt" if companion == "baseline" else "intransigence"]

        assert value.reason.endswith("was not measured on task 1")


class TestMenu:
    """The table of metrics."""

    @pytest.mark.parametrize("name", METRICS)
    def test_names_agree(self, name):
        """A metric is found under the name it carries, and says what it is and in which unit."""
        found = metric(name)

        assert (found.name, bool(found.summary), bool(found.unit)) == (name, True, True)

    def test_the_catalog_hands_on_this_table(self):
        """The menu of a manifest and the order of results are one table."""
        from contilab.catalog import METRICS as OFFERED

        assert OFFERED is METRICS
