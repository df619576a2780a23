"""The figure of the evaluation stream: what it shows, and when it is left out."""

import numpy as np
import pytest

from contilab.metrics.stream import Stream
from contilab.records.record import Record
from contilab.report.benchmark import benchmarks
from contilab.report.figures.stream import mean_line, places, stream
from contilab.report.figures.svg import styled
from contilab.report.runs import RunReport
from contilab.spec.sections import Execution
from contilab.spec.study import Cell


def a_stream(values, step=(0, 9, 0, 0, 1, 9)):
    """Return a stream of two tasks: two evaluations of task 0, then four, the first of them under the old mask."""
    accuracy = np.array([[value, np.nan] for value in values])
    return Stream(accuracy, np.array([0, 0, 1, 1, 1, 1]), np.array(step), np.array([False, False, True, False, False, False]))


def run_of(seed, found, state="finished"):
    """Return a run of two tasks with a stream."""
    cell = Cell(preset="p", benchmark="b", scenario="class", method="er", sweep={}, execution=Execution(), runs={})
    facts = {"tasks": 2, "head_rows": 2, "task_rows": [[0], [1]], "test_samples": [10] * 2, "stages": 2}
    rows = {"accuracy": [[0.5] * 2] * 2, "baseline": [0.5] * 2, "accuracy_all_rows": [[0.5] * 2] * 2}
    record = Record(scenario="class", **facts, **rows)
    return RunReport(cell, seed, str(seed), state, values={"acc": 0.5}, record=record, stream=found)


def figure_of(*runs):
    """Return the figure of *runs*, None if there is none."""
    with styled():
        return stream("k", benchmarks(runs)[0])


class TestStreamFigure:
    """One line per method, with its seeds."""

    def test_says_how_far_the_first_task_falls(self):
        """The words name the lowest accuracy after the switch and the last one, averaged over seeds."""
        drawing = figure_of(
            run_of(0, a_stream([0.1, 0.9, 0.9, 0.3, 0.5, 0.7])), run_of(1, a_stream([0.1, 0.9, 0.9, 0.5, 0.3, 0.9]))
        )

        assert "er falls to 0.30 and ends at 0.80" in drawing.alt

    @pytest.mark.parametrize("runs", [[run_of(0, None)], [run_of(0, a_stream([0.5] * 6), state="diverged")]])
    def test_is_left_out_without_a_stream(self, runs):
        """Runs of the core tier, and those that were lost, have no figure."""
        assert figure_of(*runs) is None

    def test_the_look_under_the_old_mask_is_not_drawn(self):
        """Of the two evaluations at a switch only the second counts, so the drop from .9 to .4 is one line."""
        drawing = figure_of(run_of(0, a_stream([0.1, 0.9, 0.0, 0.4, 0.5, 0.6])))

        assert "er falls to 0.40" in drawing.alt

    def test_no_mean_over_different_steps(self):
        """Seeds that were evaluated at different steps have no mean."""
        values = [0.5] * 6

        assert mean_line([a_stream(values), a_stream(values, step=(0, 8, 0, 0, 1, 8))]) is None

    def test_each_task_has_the_same_room(self):
        """Evaluations of a task lie evenly between its number and the next."""
        assert places(a_stream([0.5] * 6)) == pytest.approx([0, 1, 1, 4 / 3, 5 / 3, 2])
