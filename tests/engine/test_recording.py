"""The evaluation stream of `eval.tier = "extended"`: when, on what and under which mask, and that training stays as it is."""

import dataclasses

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine.environment import EXECUTIONS
from contilab.engine.evaluate import not_at_all, scores_of
from contilab.engine.judge import judge_of
from contilab.engine.recording.log import NOTHING, Evaluation, StreamLog, log_from
from contilab.engine.recording.moments import PACES, moments
from contilab.engine.recording.subset import Sitting, exam_until, scores_together, subset
from contilab.engine.setup import initial_members, initial_memory
from contilab.errors import Stopped
from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent
from contilab.spec.sections import Eval, Memory, Train

EXTENDED = Eval(tier="extended")
STREAM = ("stream_accuracy", "stream_task", "stream_step", "stream_old_mask")
ANSWERS = ("prediction", "confidence", "prediction_all_rows", "target")  # of every tier

QUICK = ("naive", "ewc", "derpp", "icarl")  # of each kind of method one, where all of them would take long

every_method = pytest.mark.parametrize(
    "method", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in catalog.STRATEGIES]
)
every_way = pytest.mark.parametrize("way", EXECUTIONS)


def extended(run, **settings):
    """Return *run* with its stream recorded."""
    return dataclasses.replace(run, eval=dataclasses.replace(EXTENDED, **settings))


def trained(outcome):
    """Return what training made of a run, in all its bits."""
    record = outcome.record
    tables = (record.accuracy, record.baseline, record.accuracy_all_rows, record.validation, record.train_loss, record.diverged)
    answers = {name: value.tobytes() for name, value in outcome.tensors.items() if name in ANSWERS}
    return tables, answers, {name: value.tobytes() for name, value in outcome.parameters.items()}


class TestMoments:
    """When the stream is evaluated."""

    def test_dense_after_the_switch_then_ever_more_seldom(self):
        """Steps 0 to 50, then step counts growing by 1.2, and the last step."""
        assert moments("dense", 200) == (*range(51), 60, 72, 86, 103, 123, 147, 176, 200)

    @pytest.mark.parametrize("schedule", PACES)
    @pytest.mark.parametrize("steps", [1, 9, 10, 11, 50, 51, 60, 1000])
    def test_first_and_last_step_once(self, schedule, steps):
        """Whatever the length of a task, steps ascend from 0 to the last one, which is there once."""
        found = moments(schedule, steps)

        assert (found[0], found[-1]) == (0, steps)
        assert list(found) == sorted(set(found))

    @pytest.mark.parametrize("schedule", PACES)
    def test_learning_curves_are_covered(self, schedule):
        """Each schedule has the steps 0 to 10."""
        assert moments(schedule, 500)[:11] == tuple(range(11))


class TestSubset:
    """Which test samples are evaluated."""

    def test_few_samples_of_each_task_evenly_spaced(self, make):
        """Five of twenty samples are every fourth one."""
        stream = make.stream()

        assert [part.tolist() for part in subset(stream, 5)] == [task.test[::4].tolist() for task in stream.tasks]

    def test_all_samples_where_there_are_fewer(self, make):
        """With 20 test samples per task, up to 1,000 are those 20."""
        stream = make.stream()

        assert [part.tolist() for part in subset(stream, 1000)] == [task.test.tolist() for task in stream.tasks]

    @pytest.mark.parametrize("model", [("mlp", {}), ("convnet", {})])
    def test_all_members_at_once_score_like_one_alone(self, make, model):
        """Scores of stacked members are those of each alone, but for rounding."""
        shape = (12,) if model[0] == "mlp" else (3, 8, 8)
        stream = make.stream(shape=shape)
        setup = make.setup([make.run(seed, model=model) for seed in (1, 2)], stream)
        members, memory = initial_members(setup), initial_memory(setup).entries()
        exam = exam_until(stream, subset(stream, 7), 1)
        judges = [judge_of(setup, member.params, own, not_at_all) for member, own in zip(members, memory, strict=True)]
        alone = torch.stack([scores_of(judge, exam) for judge in judges])

        assert torch.allclose(scores_together(setup, exam, Sitting(members, memory)), alone, atol=1e-5)


class TestTraining:
    """Recording changes nothing of what it records."""

    @every_way
    @every_method
    def test_numbers_are_those_of_the_core_tier(self, make, method, way):
        """Weights, matrices, predictions and losses of two members have the same bits with and without all that is recorded."""
        runs = [make.run(seed, method) for seed in (3, 8)]
        plain, recorded = make.outcomes(runs, way), make.outcomes([extended(run) for run in runs], way)

        assert [trained(one) for one in recorded] == [trained(one) for one in plain]

    @pytest.mark.parametrize("optim", catalog.OPTIMISERS)
    def test_numbers_with_each_optimiser(self, make, optim):
        """Longer chunks of steps, which evaluations cut, give the same bits with folded updates and with others."""
        runs = [make.run(seed, "er", optim=(optim, {"lr": 0.02}), train=Train(steps=60, batch=8)) for seed in (3, 8)]
        plain = make.outcomes(runs, "batched")

        assert [trained(one) for one in make.outcomes([extended(run) for run in runs], "batched")] == [*map(trained, plain)]

    @every_way
    def test_numbers_of_augmented_pictures(self, make, way):
        """Where pictures are changed by chance, evaluations see them as they are, and training draws the same changes."""
        stream = make.stream(shape=(3, 8, 8))
        net = ("convnet", {"channels": [4, 8], "groups": 2})
        runs = [make.run(seed, model=net, train=Train(epochs=1, batch=16, augment="crop_flip")) for seed in (3, 8)]
        plain = make.outcomes(runs, way, stream)
        recorded = make.outcomes([extended(run) for run in runs], way, stream)
        rows = [one.record.accuracy[2] for one in recorded]

        assert [trained(one) for one in recorded] == [trained(one) for one in plain]
        assert [one.tensors["stream_accuracy"][-1].tolist() for one in recorded] == rows

    def test_a_member_has_the_stream_of_the_same_seed_alone(self, make):
        """Under the loop, a stream has the same bits in a group of three."""
        runs = [extended(make.run(seed, "er")) for seed in (1, 2, 3)]
        [alone] = make.outcomes(runs[1:2])
        together = make.outcomes(runs)[1]

        assert {name: alone.tensors[name].tobytes() for name in STREAM} == {
            name: together.tensors[name].tobytes() for name in STREAM
        }

    def test_without_the_tier_nothing_is_recorded(self, make):
        """A run of the core tier has answers only, and no note of a schedule."""
        [outcome] = make.outcomes([make.run()])

        assert outcome.tensors.keys() == set(ANSWERS)
        assert "stream" not in outcome.record.notes


class TestStream:
    """What is recorded."""

    def test_steps_and_masks_of_each_switch(self, make):
        """Three tasks of 6 steps: 7 evaluations each, and one more under the old mask before each of two switches."""
        [outcome] = make.outcomes([extended(make.run())])
        lines = list(zip(*(outcome.tensors[name].tolist() for name in STREAM[1:]), strict=True))
        tasks = [[(task, step, False) for step in range(7)] for task in range(3)]

        assert lines == [*tasks[0], (1, 0, True), *tasks[1], (2, 0, True), *tasks[2]]

    @every_way
    @pytest.mark.parametrize("method", ["naive", "er", "icarl", "cumulative", "ewc"])
    @pytest.mark.parametrize("scenario", ["task", "class"])
    def test_the_end_of_a_task_is_the_row_of_the_matrix(self, make, method, scenario, way):
        """With all test samples, the last evaluation of a task is what the exam after it found, and so is that of before."""
        [outcome] = make.outcomes([extended(make.run(5, method, scenario=scenario))], way)
        accuracy, task, _, is_old = (outcome.tensors[name] for name in STREAM)
        ends = [np.flatnonzero(task == number)[-1] for number in range(3)]
        matrix = outcome.record.accuracy

        assert [accuracy[end, : row + 1].tolist() for row, end in enumerate(ends)] == [
            matrix[row][: row + 1] for row in range(3)
        ]
        assert [accuracy[line, : row + 1].tolist() for row, line in enumerate(np.flatnonzero(is_old))] == [
            matrix[row][: row + 1] for row in range(2)
        ]

    def test_opening_new_rows_is_seen_apart(self, make):
        """At a switch the weights are the same under both masks; with new rows open, earlier tasks are no better."""
        [outcome] = make.outcomes([extended(make.run(1))])
        accuracy, _, _, is_old = (outcome.tensors[name] for name in STREAM)
        old = np.flatnonzero(is_old)

        assert all((accuracy[line + 1, : row + 1] <= accuracy[line, : row + 1]).all() for row, line in enumerate(old))

    def test_tasks_not_begun_are_not_measured(self, make):
        """While task 0 is learned, later tasks have no value."""
        [outcome] = make.outcomes([extended(make.run(scenario="task"))])
        accuracy, task = outcome.tensors["stream_accuracy"], outcome.tensors["stream_task"]

        assert np.array_equal(
            np.isnan(accuracy), np.arange(3) > np.where(outcome.tensors["stream_old_mask"], task - 1, task)[:, None]
        )

    def test_learning_curves_are_under_the_mask_of_the_task(self, make):
        """Class-incremental, rows of a task compete with each other only, before task 0 as those of the untrained model."""
        [outcome] = make.outcomes([extended(make.run(4))])
        curve = outcome.tensors["learning_curve"]

        assert curve.shape == (3, 11)
        assert curve[0, 0] == outcome.record.baseline[0]
        assert [curve[task, 6] for task in range(3)] == [outcome.record.accuracy_task_aware[task][task] for task in range(3)]
        assert np.isnan(curve[:, 7:]).all()  # a task has 6 steps

    def test_schedule_and_samples_are_noted(self, make):
        """The record names schedule and samples; the evaluations are on so many, and of the sparse schedule."""
        run = extended(make.run(train=Train(steps=30, batch=8)), schedule="sparse", stream_samples=10)
        [outcome] = make.outcomes([run])
        step, task = outcome.tensors["stream_step"], outcome.tensors["stream_task"]

        assert outcome.record.notes["stream"] == {
            "schedule": "sparse",
            "dense_steps": 10,
            "growth": 1.5,
            "samples": [10, 10, 10],
        }
        assert step[task == 0].tolist() == [*range(11), 15, 22, 30]
        assert np.allclose(outcome.tensors["stream_accuracy"][0, 0] * 10 % 1, 0)

    def test_forward_passes_are_counted(self, make):
        """Three tasks, 7 evaluations each of 20 samples per task begun: 840 passes; and 240 for features after each task."""
        run = make.run()
        plain, recorded = (make.outcomes([one])[0].record.cost for one in (run, extended(run)))
        flops = make.setup([run]).learner.model.flops

        assert recorded.flops_evaluation - plain.flops_evaluation == flops * (7 * 20 * (1 + 2 + 3) + 3 * 240)
        assert recorded.flops == plain.flops

    @pytest.mark.parametrize("method", ["joint", "gdumb"])
    def test_methods_without_a_stream_have_an_empty_one(self, make, method):
        """Joint training and GDumb do not learn one task after the other; metrics say so."""
        [outcome] = make.outcomes([extended(make.run(method=method))])
        reasons = {"joint": "joint has one training stage", "gdumb": "no training on the stream"}
        values = compute(outcome.record, outcome.tensors)

        assert len(outcome.tensors["stream_task"]) == 0
        assert {values[name] for name in ("min_acc", "stability_gap", "lca_10")} == {Absent(reasons[method])}

    def test_metrics_read_it(self, make):
        """All metrics of the tier that need stream or learning curves have a value, or a reason of their formula."""
        [outcome] = make.outcomes([extended(make.run(7, "er", train=Train(steps=30, batch=8)))])
        values = compute(outcome.record, outcome.tensors)
        names = (
            "min_acc",
            "wc_acc",
            "wf_10",
            "wf_100",
            "wp_10",
            "wp_100",
            "stability_gap",
            "gap_recovered",
            "anytime_acc",
            "lca_10",
        )

        assert all(0 <= values[name] <= 1 for name in names)
        assert isinstance(values["recovery_steps"], float) or values["recovery_steps"].reason.startswith("no earlier task")

    def test_a_diverged_member_ends_where_it_did(self, make):
        """Nothing is told of a member after the step of its first non-finite loss; its mate has all evaluations."""
        runs = [extended(make.run(seed, optim=("sgd", {"lr": lr}))) for seed, lr in ((0, 0.05), (1, 1e30))]
        mate, lost = make.outcomes(runs)
        values = compute(lost.record, lost.tensors)

        assert len(mate.tensors["stream_task"]) == 23
        assert lost.tensors["stream_step"].tolist() == list(range(lost.record.diverged["step"] + 1))
        assert values["min_acc"].reason.startswith("the run diverged in task 0")


class TestLog:
    """The log of one member."""

    def test_survives_as_plain_values(self):
        """Facts give the same log back."""
        log = StreamLog([Evaluation(0, 0, [3], 2), Evaluation(0, 1, [NOTHING], NOTHING)], passes=8)

        assert log_from(log.facts()) == log

    def test_scores_that_are_not_finite_have_no_accuracy(self):
        """Hits that were not counted are nan in the tensors, in the stream and in learning curves."""
        tensors = StreamLog([Evaluation(0, 0, [NOTHING], NOTHING), Evaluation(0, 1, [2], 3)]).tensors([4], None)

        assert np.array_equal(tensors["stream_accuracy"], [[np.nan], [0.5]], equal_nan=True)
        assert np.array_equal(tensors["learning_curve"][0, :3], [np.nan, 0.75, np.nan], equal_nan=True)


class TestResume:
    """A stream goes on where it was stopped."""

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    @every_method
    def test_stopped_and_resumed_it_is_the_stream_of_one_go(self, make, looks, method, way):
        """Stopped at the beginning, within and at the end of tasks, all tensors have the bits of one go."""
        runs = [extended(make.run(seed, method)) for seed in (3, 8)]
        ends = [1, 6, 8, 12, 15]

        assert make.facts(make.in_pieces(runs, way, ends)) == make.facts(make.outcomes(runs, way))

    @pytest.mark.parametrize("count", [2, 25, 60])
    def test_stopped_within_an_evaluation_takes_it_again(self, make, looks, count):
        """Whichever look at the watch stops the run, what it kept leads to the stream of one go."""
        runs = [extended(make.run(seed, "er", memory=Memory(total=20, batch=8))) for seed in (3, 8)]
        asked, shelf = [], make.Shelf()

        def stop():
            asked.append(1)
            return len(asked) == 4 + count

        with pytest.raises(Stopped):
            make.outcomes(runs, watch=shelf.watch._replace(stop=stop))
        kept = shelf.kept[-1].files if shelf.kept else None

        assert make.facts(make.outcomes(runs, resume=kept)) == make.facts(make.outcomes(runs))

    def test_recording_is_measured(self, make):
        """Evaluations are counted as recording, and not into the speed of training."""
        [plain], [recorded] = (make.outcomes([run]) for run in (make.run(), extended(make.run())))

        assert recorded.record.cost.seconds_recording > 0
        assert len(recorded.record.cost.steps_per_second) == len(plain.record.cost.steps_per_second)


class TestAddress:
    """What of `eval` is in the address of a run."""

    @pytest.mark.parametrize(
        "changed", [{"tier": "core"}, {"schedule": "sparse"}, {"stream_samples": 500}, {"keep_features": True}]
    )
    def test_each_key_of_the_stream_changes_it(self, make, changed):
        """Tier, schedule, samples and what is kept change the address."""
        assert extended(make.run()).rid != extended(make.run(), **changed).rid

    def test_defaults_are_not_in_it(self, make):
        """Runs of the core tier keep the address that they had before there were streams."""
        assert make.run().config["eval"] == {"tier": "core", "keep_parameters": True}
