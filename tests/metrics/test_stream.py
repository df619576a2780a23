"""Metrics of the evaluation stream, and of the first batches of a task."""

import numpy as np
import pytest

from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent, Missing
from contilab.metrics.learning_curve import learning_curve_area
from contilab.metrics.stability import (
    EXAMPLE,
    anytime_acc,
    gap_recovered,
    largest_drop,
    largest_rise,
    min_acc,
    never_recovered_share,
    recovery_steps,
    stability_gap,
    wc_acc,
    windowed,
)
from contilab.metrics.stream import Stream
from contilab.metrics.table import METRICS, metric
from contilab.records.record import Record

SERIES = [0.90, 0.50, 0.30, 0.62, 0.80, 0.84, 0.86]
STREAM = [name for name, place in METRICS.items() if place.startswith("contilab.metrics.stability:")]


def stream(rows):
    """Return a stream of (task, step, under the old mask, accuracies)."""
    task, step, is_old, accuracy = zip(*rows, strict=True)
    return Stream(np.array(accuracy, dtype=np.float32), np.array(task), np.array(step), np.array(is_old))


NAN = float("nan")
THREE = stream(
    [
        (0, 0, False, (0.1, NAN, NAN)),
        (0, 10, False, (0.9, NAN, NAN)),
        (1, 0, True, (0.9, NAN, NAN)),
        (1, 0, False, (0.6, 0.1, NAN)),
        (1, 5, False, (0.4, 0.7, NAN)),
        (1, 10, False, (0.88, 0.8, NAN)),
        (2, 0, True, (0.88, 0.8, NAN)),
        (2, 0, False, (0.5, 0.5, 0.0)),
        (2, 10, False, (0.6, 0.78, 1.0)),
    ]
)


def record(tasks=2, stages=2, **changes):
    """Return a class-incremental record of two tasks."""
    facts = {"scenario": "task", "tasks": tasks, "head_rows": 4, "task_rows": [[0, 1], [2, 3]], "test_samples": [5, 5]}
    rows = [[0.9, 0.1], [0.86, 0.94]][:stages]
    return Record(**{**facts, "stages": stages, "accuracy": rows, "baseline": [0.5, 0.5], "accuracy_all_rows": rows, **changes})


def tensors(found):
    """Return a stream as tensors of a result."""
    values = (found.accuracy, found.task, found.step, found.is_old_mask)
    names = ("stream_accuracy", "stream_task", "stream_step", "stream_old_mask")
    return dict(zip(names, values, strict=True))


class TestByHand:
    """The worked example of the definitions."""

    @pytest.mark.parametrize(
        ("function", "value"),
        [(min_acc, 0.30), (wc_acc, 0.62), (stability_gap, 0.60), (gap_recovered, 0.56), (recovery_steps, 13)],
    )
    def test_values(self, function, value):
        """Each value is the one that was worked out by hand."""
        assert function(EXAMPLE) == pytest.approx(value, abs=1e-12)

    @pytest.mark.parametrize(("window", "drop", "rise"), [(2, 0.40, 0.32), (3, 0.60, 0.50), (4, 0.60, 0.54)])
    def test_windows(self, window, drop, rise):
        """Largest drop and rise within 2, 3 and 4 consecutive evaluations."""
        assert (largest_drop(SERIES, window), largest_rise(SERIES, window)) == pytest.approx((drop, rise), abs=1e-12)

    def test_area_of_the_learning_curve(self):
        """Z = .5, .7, .8 gives two thirds over two batches."""
        assert learning_curve_area(np.array([0.5, 0.7, 0.8]), 2) == pytest.approx(2 / 3, abs=1e-12)

    def test_windows_by_enumeration(self):
        """They are the extremes over all pairs within the window, and never negative."""
        values = np.random.default_rng(0).uniform(size=40)
        for window in (2, 10, 100):
            pairs = [values[m] - values[n] for m in range(40) for n in range(m + 1, min(40, m + window))]
            assert largest_drop(values, window) == pytest.approx(max(pairs), abs=1e-12)
            assert largest_rise(values, window) == pytest.approx(-min(pairs), abs=1e-12)
        assert (largest_drop([0.1, 0.5], 2), largest_rise([0.5, 0.1], 2), largest_drop([0.5], 10)) == (0, 0, 0)


class TestSwitches:
    """Three tasks, each switch evaluated under both masks."""

    @pytest.mark.parametrize(
        ("function", "value"),
        [
            (min_acc, (0.4 + 0.5) / 2),
            (wc_acc, 1.0 / 3 + 2 / 3 * 0.45),
            (stability_gap, (0.5 + 0.38 + 0.3) / 3),  # the drop of the mask at the switch is part of it
            (gap_recovered, (0.48 + 0.1 + 0.28) / 3),
            (recovery_steps, (10 + 10) / 2),
            (never_recovered_share, 1 / 3),
            (anytime_acc, (0.1 + 0.9 + 0.35 + 0.55 + 0.84 + 1.0 / 3 + 2.38 / 3) / 7),
            (lambda s: windowed(s, 10, largest_drop), (0.5 + 0.3 + 0.0) / 3),
        ],
    )
    def test_values(self, function, value):
        """The evaluation under the old mask is what was there before, and counts nowhere else."""
        assert function(THREE) == pytest.approx(value, abs=1e-6)  # accuracies are stored as float32

    def test_without_the_old_mask(self):
        """Where a switch was not evaluated under the old mask, the last step before it stands for that."""
        rows = ~THREE.is_old_mask
        less = Stream(*(column[rows] for column in THREE))

        assert stability_gap(less) == pytest.approx(stability_gap(THREE), abs=1e-12)

    def test_no_drop_recovers_at_once(self):
        """Accuracy that never falls below the threshold is back at its minimum, not never."""
        flat = stream([(0, 5, False, (0.9, NAN)), (1, 1, False, (0.9, 0.1)), (1, 2, False, (0.89, 0.9))])

        assert (recovery_steps(flat), never_recovered_share(flat)) == (2.0, 0.0)

    def test_never_recovered(self):
        """Without any recovery there are no steps to count, and the share says so."""
        lost = stream([(0, 5, False, (0.9, NAN)), (1, 1, False, (0.2, 0.9))])

        assert never_recovered_share(lost) == 1.0
        with pytest.raises(Missing, match="no earlier task recovered"):
            recovery_steps(lost)

    def test_what_was_lost_before_does_not_recover(self):
        """A task that stands at nothing when a switch comes is no drop that came back: it counts neither way."""
        rows = [(0, 5, False, (0.9, NAN, NAN)), (1, 1, False, (0.0, 0.9, NAN)), (2, 1, False, (0.0, 0.0, 0.9))]

        assert never_recovered_share(stream(rows)) == 1.0
        with pytest.raises(Missing, match="no earlier task recovered"):
            recovery_steps(stream(rows))

    @pytest.mark.parametrize(("before", "share"), [(0.009, 1.0), (0.011, 2 / 3)])
    def test_counts_from_a_hundredth_on(self, before, share):
        """Of three drops that at .011 is the one that comes back; one that stood at .009 counts neither way."""
        rows = [(0, 5, False, (0.9, NAN, NAN)), (1, 1, False, (before, 0.9, NAN)), (2, 1, False, (before, 0.0, 0.9))]

        assert never_recovered_share(stream(rows)) == pytest.approx(share)

    def test_nothing_to_lose(self):
        """Where no earlier task stands above nothing before a switch, both are absent."""
        nothing = stream([(0, 5, False, (0.0, NAN)), (1, 1, False, (0.0, 0.9))])

        for function in (never_recovered_share, recovery_steps):
            with pytest.raises(Missing, match="no earlier task had anything left to lose"):
                function(nothing)

    @pytest.mark.parametrize("function", [min_acc, wc_acc, stability_gap, gap_recovered, never_recovered_share])
    def test_one_task(self, function):
        """Before the first switch there is nothing to lose."""
        with pytest.raises(Missing, match="one task only"):
            function(stream([(0, 0, False, (0.1,)), (0, 9, False, (0.9,))]))

    def test_inputs_are_left_alone(self):
        """The same stream gives the same value twice, and is not changed."""
        before = [column.copy() for column in THREE]
        first = [metric(name).function for name in STREAM]

        assert len(first) == 11
        for function in (min_acc, anytime_acc, recovery_steps):
            assert function(THREE) == function(THREE)
        assert all(np.array_equal(old, new, equal_nan=old.dtype.kind == "f") for old, new in zip(before, THREE, strict=True))


class TestRecords:
    """The same from the tensors of a result."""

    def test_values(self):
        """Every metric of the stream is computed from a record that holds one."""
        values = compute(record(), tensors(EXAMPLE))

        assert values["min_acc"] == pytest.approx(0.3)
        assert values["wf_10"] == values["wf_100"] == pytest.approx(0.3)
        assert values["wp_10"] == pytest.approx(0.28)
        assert [name for name in STREAM if isinstance(values[name], Absent)] == []

    @pytest.mark.parametrize("name", STREAM)
    def test_without_a_stream(self, name):
        """A run of the core tier says what it would have needed."""
        reason = "no evaluation stream was recorded: it needs eval.tier extended"

        assert compute(record(), {"target": np.zeros(1)})[name] == Absent(reason)

    def test_joint_has_none(self):
        """Joint training has no switch."""
        assert compute(record(stages=1), tensors(EXAMPLE))["min_acc"] == Absent("joint has one training stage")

    def test_a_method_that_does_not_train_on_it(self):
        """A stream without evaluations, and without learning curves, is of a method that learns otherwise."""
        nothing = {**tensors(Stream(*(column[:0] for column in EXAMPLE))), "learning_curve": np.zeros((0, 11))}
        values = compute(record(), nothing)

        assert {values[name] for name in (*STREAM, "lca_10")} == {Absent("no training on the stream")}

    def test_diverged_in_the_last_task(self):
        """A stream that reaches the last task but not its end is absent, too."""
        lost = record(diverged={"task": 1, "step": 7})

        assert compute(lost, tensors(EXAMPLE))["min_acc"] == Absent("the run diverged in task 1 at step 7")

    def test_a_diverged_run(self):
        """A stream that ended early is absent with the place of the divergence."""
        early = Stream(*(column[:1] for column in EXAMPLE))
        lost = record(diverged={"task": 1, "step": 7})

        assert compute(lost, tensors(early))["min_acc"] == Absent("the run diverged in task 1 at step 7")

    def test_learning_curves(self):
        """Z is the mean over tasks, and ten batches are needed of each."""
        curves = np.tile(np.linspace(0.0, 1.0, 11), (2, 1))
        less = np.where(np.arange(11) > 8, NAN, curves)

        assert compute(record(), {"learning_curve": curves})["lca_10"] == pytest.approx(0.5)
        assert compute(record(), {"learning_curve": less})["lca_10"] == Absent(
            "not every task has a learning curve of 10 batches"
        )
        assert "it needs eval.tier extended" in compute(record(), {"target": curves})["lca_10"].reason
