"""Evaluation: what is measured, under which mask, and that it disturbs nothing."""

import numpy as np
import pytest
import torch

from contilab.engine.evaluate import Exam, Judge, evaluate, test_exam
from contilab.engine.setup import initial_members
from contilab.models.contract import Forward, Model
from contilab.spec.sections import Benchmark

ROWS = ((0, 1), (2, 3))
test_exam.__test__ = False  # a function of the engine, not a test


def judge(model, params):
    """Return the logits of a model as what answers in an exam."""
    return Judge(lambda x: model.forward(params, {}, x).logits)


def marks_of(logits, targets, scenario="class", last=1):
    """Return the marks of a model whose logits are the inputs, on two tasks of equal size."""
    model = Model({}, lambda _params, _buffers, x: Forward(x, x), flops=0)
    inputs = torch.tensor(logits, dtype=torch.float32)
    exam = Exam(inputs, torch.arange(len(inputs)), torch.tensor(targets), [len(targets) // 2] * 2)
    return evaluate(judge(model, {}), exam, Benchmark(name="b", scenario=scenario), ROWS, last=last)


class TestEvaluate:
    """The marks of one model."""

    def test_class_incremental_cells_of_later_tasks_are_absent(self):
        """After task 0 task 1 has no accuracy, and its samples have no prediction; the other two matrices measure it."""
        marks = marks_of([[3, 0, 9, 0], [0, 0, 1, 2]], [0, 3], last=0)

        assert marks.accuracy == [1.0, None]
        assert marks.prediction.tolist() == [0, -1]
        assert marks.all_rows == [0.0, 1.0]
        assert marks.task_aware == [1.0, 1.0]

    @pytest.mark.parametrize(("scenario", "expected"), [("class", [0.0, 1.0]), ("task", [1.0, 1.0]), ("domain", [0.0, 1.0])])
    def test_masks_follow_the_scenario(self, scenario, expected):
        """Row 2 has the largest logit of the first sample: only a task's own mask hides it."""
        assert marks_of([[3, 0, 9, 0], [0, 0, 1, 2]], [0, 3], scenario).accuracy == expected

    def test_of_equal_logits_the_lowest_row_is_predicted(self):
        """Four equal logits: row 0 under all rows, row 2 under the mask of task 1."""
        marks = marks_of([[0, 0, 0, 0], [0, 0, 0, 0]], [0, 2], "task")

        assert marks.prediction.tolist() == [0, 2]
        assert marks.prediction_all_rows.tolist() == [0, 0]

    def test_confidence_is_the_probability_of_the_prediction_under_its_mask(self):
        """Two allowed logits log 3 and 0 give 0.75, whatever the masked ones are."""
        marks = marks_of([[np.log(3), 0, 50, 50], [50, 50, np.log(3), 0]], [0, 2], "task")

        assert marks.confidence.tolist() == pytest.approx([0.75, 0.75])

    def test_logits_that_are_not_finite_are_reported(self):
        """One nan among the logits makes the marks worthless."""
        assert not marks_of([[float("nan"), 0, 0, 0], [0, 0, 0, 0]], [0, 2]).is_finite

    def test_permuted_task_numbers_leave_class_incremental_predictions(self, make):
        """With all tasks learned, predictions and the accuracy of each task are the same under any numbering."""
        setup = make.setup([make.run()])
        model, params = setup.learner.model, initial_members(setup)[0].params
        order = [2, 0, 1]
        permuted = setup.stream._replace(tasks=tuple(setup.stream.tasks[task] for task in order))
        benchmark = Benchmark(name="b", scenario="class")
        plain = evaluate(judge(model, params), test_exam(setup.stream), benchmark, setup.rows, last=2)
        other = evaluate(
            judge(model, params), test_exam(permuted), benchmark, tuple(setup.rows[task] for task in order), last=2
        )

        assert other.accuracy == [plain.accuracy[task] for task in order]
        assert sorted(other.prediction.tolist()) == sorted(plain.prediction.tolist())

    def test_draws_nothing_and_writes_nothing(self, make):
        """Parameters and the random states of torch and NumPy are the same before and after."""
        setup = make.setup([make.run()])
        params = initial_members(setup)[0].params
        before = {name: value.clone() for name, value in params.items()}
        states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is meant
        evaluate(judge(setup.learner.model, params), test_exam(setup.stream), setup.shared.benchmark, setup.rows, last=0)

        assert all(torch.equal(before[name], params[name]) for name in params)
        assert torch.equal(states[0], torch.get_rng_state())
        assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002 - as above

    def test_may_be_ended_before_each_batch(self, make):
        """An exam on 2,100 samples takes three looks, and what a look raises ends it."""
        setup = make.setup([make.run()], make.stream((20, 20), test=1050))
        params, looks = initial_members(setup)[0].params, []

        def look():
            looks.append(len(looks))
            if len(looks) == 4:
                raise KeyboardInterrupt

        arguments = (judge(setup.learner.model, params), test_exam(setup.stream), setup.shared.benchmark, setup.rows)
        evaluate(*arguments, last=0, look=look)
        with pytest.raises(KeyboardInterrupt):
            evaluate(*arguments, last=0, look=look)

        assert looks == [0, 1, 2, 3]
