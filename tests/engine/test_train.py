"""Training of groups to the end: what comes out, and what must not change it."""

import dataclasses

import numpy as np
import psutil
import pytest

from contilab import catalog
from contilab.engine import train as subject
from contilab.engine.closing import end_of_task
from contilab.engine.executions.loop import loop
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.stage import Session, train_stage
from contilab.engine.watch import Watch, silent
from contilab.errors import Stopped
from contilab.records.outcome import files_of
from contilab.spec.sections import Benchmark, Execution, Memory, Plugin, Train

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
HELD = {"gem": 3 * 6, "icarl": 6 * 3}  # of 20 entries: equal quotas of three tasks, of six classes
BESIDE = {  # forward passes of one sample beside steps; a gradient of an importance is worth three
    "ewc": 3 * (40 + 33 + 47),
    "mas": 3 * (40 + 33 + 47),
    "lwf": 2 * (33 + 47),  # the teacher, from task 1 on
    "icarl": 2 * (33 + 20 + 47 + 20) + 40 + 33 + 47,  # the teacher of samples and exemplars, then herding
}


def same_parameters(one, other):
    """Tell whether two outcomes end at the same weights, bit by bit."""
    return all(np.array_equal(value, other.parameters[name]) for name, value in one.parameters.items())


class TestOutcome:
    """What a run leaves."""

    @pytest.mark.parametrize("sizes", [(30,), (30, 9, 17), (8,) * 20])
    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_matrix_has_a_row_and_a_column_per_task(self, make, sizes, scenario):
        """With 1, 3 and 20 tasks of unequal sizes; in class-incremental learning exactly the cells j > i are absent."""
        [outcome] = make.outcomes([make.run(scenario=scenario)], stream=make.stream(sizes))
        tasks = range(len(sizes))
        absent = [[cell is None for cell in row] for row in outcome.record.accuracy]

        assert absent == [[scenario == "class" and test > after for test in tasks] for after in tasks]
        assert all(cell is not None for row in outcome.record.accuracy_all_rows for cell in row)
        assert None not in outcome.record.baseline

    def test_joint_has_one_row(self, make):
        """Joint training has one stage, after which every task is measured."""
        [outcome] = make.outcomes([make.run(method="joint")])

        assert outcome.record.stages == 1
        assert [len(row) for row in outcome.record.accuracy] == [3]
        assert None not in outcome.record.accuracy[0]
        assert outcome.tensors["prediction"].shape == (2, 60)

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_tensors_agree_with_the_matrix(self, make, way):
        """The share of right predictions in the stored tensors is the accuracy of the record; -1 where nothing is measured."""
        outcome = make.outcomes([make.run(0), make.run(1)], way)[1]
        right = outcome.tensors["prediction"] == outcome.tensors["target"]
        shares = right.reshape(4, 3, 20).mean(-1)

        assert shares[0].tolist() == pytest.approx(outcome.record.baseline)
        assert shares[3].tolist() == pytest.approx(outcome.record.accuracy[2])
        assert (outcome.tensors["prediction"][1, 20:] == -1).all()
        assert outcome.tensors["prediction"].dtype == np.int16

    def test_learns(self, make):
        """Joint training on well-separated clouds is right far above chance, and naive training forgets."""
        train = Train(epochs=8, batch=8)
        joint, naive = (make.outcomes([make.run(method=method, train=train)])[0].record for method in ("joint", "naive"))

        assert np.mean(joint.accuracy[-1]) > 0.8
        assert naive.accuracy[-1][0] < naive.accuracy[0][0]

    def test_is_written_and_holds_no_nan(self, make):
        """A diverged run is a result like any other: its files can be made, and its lost rows are -1."""
        [outcome] = make.outcomes([make.run(optim=("sgd", {"lr": 1e30}))])

        assert outcome.record.state == "diverged"
        assert outcome.record.diverged.keys() == {"task", "step"}
        assert files_of(outcome).keys() == {"record.jsonl", "tensors.safetensors"}
        assert (outcome.tensors["prediction"][1:] == -1).all()

    def test_weights_that_explode_in_the_last_step_are_noticed(self, make):
        """One step per task at a rate of 1e38: its loss is finite, what it leaves is not, so the run ends after that step."""
        [outcome] = make.outcomes([make.run(optim=("sgd", {"lr": 1e38}), train=Train(steps=1, batch=16))])

        assert outcome.record.diverged == {"task": 0, "step": 1}
        assert outcome.record.accuracy == []

    @pytest.mark.parametrize(
        ("validation", "expected"), [(4, [[False, True, True], [False, False, True], [False] * 3]), (0, None)]
    )
    def test_validation_has_a_matrix_where_samples_are_held_out(self, make, validation, expected):
        """Its absent cells are those of the test matrix; without validation samples there is no matrix."""
        [outcome] = make.outcomes([make.run()], stream=make.stream(validation=validation))
        matrix = outcome.record.validation

        assert (matrix and [[cell is None for cell in row] for row in matrix]) == expected

    def test_parameters_are_left_out_if_asked(self, make):
        """With eval.keep_parameters = false there are none."""
        run = make.run()
        [outcome] = make.outcomes([dataclasses.replace(run, eval=dataclasses.replace(run.eval, keep_parameters=False))])

        assert outcome.parameters == {}

    @every_method
    def test_counts_what_was_done(self, make, method):
        """Steps, samples, memory and operations follow from sizes 40, 33, 47, batches of 16, two epochs and 20 entries."""
        run = make.run(method=method)
        strategy = make.setup([run]).learner.strategy
        cost = make.outcomes([run])[0].record.cost

        if strategy.stages in ("tasks", "joint"):  # of the others: test_stages.py
            assert cost.train_steps == (16 if strategy.stages == "joint" else 18)
            assert cost.samples_new == 240
            if strategy.reference is None:
                assert cost.samples_replayed == len(strategy.replay) * 8 * 17
        entry = 8 + 4 * 6 * strategy.keeps_logits  # an index, and the logits of six rows
        assert cost.buffer_bytes == entry * HELD.get(method, 20) * (run.memory is not None)
        assert cost.buffer_sample_bytes == 20 * 12 * 4 * (run.memory is not None)  # whatever quotas leave empty
        assert cost.params_total == 12 * 16 + 16 + 16 * 16 + 16 + 16 * 6 + 6
        passes = 3 * (cost.samples_new + cost.samples_replayed) + BESIDE.get(method, 0)
        assert cost.flops == 2 * (12 * 16 + 16 * 16 + 16 * 6) * passes > 0

    def test_peak_of_memory_is_that_of_this_process(self, make):
        """It is more than torch alone takes, and no more than the machine has; a processor has no device memory."""
        cost = make.outcomes([make.run()])[0].record.cost

        assert 2**26 < cost.peak_rss_bytes <= psutil.virtual_memory().total
        assert cost.peak_device_bytes == 0

    def test_losses_are_means_per_epoch_or_per_hundred_steps(self, make):
        """Two epochs are two numbers per task; 120 steps per task are two, of 100 and of 20 steps."""
        by_epoch = make.outcomes([make.run()])[0].record.train_loss
        by_steps = make.outcomes([make.run(train=Train(steps=120, batch=4))])[0].record.train_loss

        assert [len(task) for task in by_epoch] == [2, 2, 2]
        assert [len(task) for task in by_steps] == [2, 2, 2]


class TestEquivalences:
    """Settings under which two methods are the same numbers."""

    def test_no_memory_is_naive(self, make):
        """Experience replay from a memory of 0 is naive training bit by bit."""
        [replay] = make.outcomes([make.run(method="er", memory=Memory(total=0, batch=8))])
        [naive] = make.outcomes([make.run()])

        assert same_parameters(replay, naive)

    def test_no_strength_is_naive(self, make):
        """Elastic weight consolidation of strength 0 is naive training."""
        [ewc] = make.outcomes([make.run(method="ewc", settings={"strength": 0.0})])
        [naive] = make.outcomes([make.run()])

        assert same_parameters(ewc, naive)

    def test_memory_size_changes_no_step(self, make):
        """Steps per task are the same for a memory of 5 and one larger than the data."""
        small, large = (
            make.outcomes([make.run(method="er", memory=Memory(total=total, batch=8))])[0].record.cost for total in (5, 500)
        )

        assert small.train_steps == large.train_steps
        assert large.buffer_bytes == 8 * 120

    def test_memory_per_class_holds_so_many_per_head_row(self, make):
        """Three entries for each of six rows are 18."""
        setup = make.setup([make.run(method="er", memory=Memory(per_class=3, batch=4))])

        assert setup.plan.capacity == 18

    def test_steps_of_joint_training_are_those_of_all_tasks(self, make):
        """With 7 steps per task, joint training on three tasks has 21."""
        [outcome] = make.outcomes([make.run(method="joint", train=Train(steps=7, batch=16))])

        assert outcome.record.cost.train_steps == 21

    def test_evaluation_leaves_training_as_it_is(self, make):
        """The stages alone, without one evaluation, end at the same bits as the whole run."""
        setup = make.setup([make.run(3, "er")])
        draws = draws_of(setup)
        session = Session(setup, loop(setup.learner), draws, silent())
        members, memory = initial_members(setup), initial_memory(setup)
        for stage in setup.stages:
            members, _ = train_stage(session, stage, members, memory)
            members = [end_of_task(setup, stage, setup.shared, members[0])]
        [outcome] = make.outcomes([make.run(3, "er")])

        assert all(np.array_equal(value, outcome.parameters[name]) for name, value in members[0].params.items())

    def test_a_group_holds_no_index_outside_training_parts(self, make):
        """After two tasks memory holds distinct training samples of those two, never validation samples."""
        setup = make.setup([make.run(3, "er")])
        draws = draws_of(setup)
        members, memory = initial_members(setup), initial_memory(setup)
        for stage in setup.stages[:2]:
            members, _ = train_stage(Session(setup, loop(setup.learner), draws, silent()), stage, members, memory)
        held = memory.samples[0, :-1].tolist()

        assert set(held) <= {int(sample) for task in setup.stream.tasks[:2] for sample in task.train}
        assert len(set(held)) == 20


class TestWatch:
    """Progress, stopping and logs."""

    def test_progress_counts_all_steps(self, make):
        """The last progress of a group of two is step 18 of 18 in task 2 of 3, with a finite loss."""
        seen = []
        make.outcomes([make.run(0), make.run(1)], watch=silent()._replace(progress=seen.append))

        assert (seen[-1].task, seen[-1].tasks, seen[-1].step, seen[-1].steps) == (2, 3, 18, 18)
        assert seen[-1].loss > 0
        assert seen[-1].samples_per_second > 0

    def test_stop_ends_training_within_a_chunk(self, make):
        """A watch that says stop raises Stopped before the next step."""
        seen = []
        watch = Watch(progress=seen.append, stop=lambda: len(seen) >= 2, log=lambda _event, **_facts: None)
        with pytest.raises(Stopped):
            make.outcomes([make.run()], watch=watch)

        assert len(seen) == 2

    def test_a_group_of_diverged_members_ends_early(self, make):
        """Where every member has diverged no further stage is trained, and progress has no loss."""
        seen = []
        runs = [make.run(seed, optim=("sgd", {"lr": 1e30})) for seed in range(2)]
        make.outcomes(runs, watch=silent()._replace(progress=seen.append))

        assert {progress.task for progress in seen} == {0}
        assert seen[-1].loss is None


class TestTrain:
    """The public function, on a benchmark of the catalog."""

    @pytest.mark.parametrize("asked", ["auto", "loop", "vmap"])
    def test_trains_runs_of_the_catalog(self, make, asked):
        """Two seeds on synthetic clouds end with three tasks each, under every execution that can be asked for."""
        benchmark = Benchmark(name="synthetic", scenario="class", tasks=3, train_per_task=40, test_per_task=20)
        model = Plugin(name="mlp", settings={"hidden": [8]})
        data = catalog.entry("benchmark", "synthetic").make(benchmark).data
        runs = [dataclasses.replace(make.run(seed), benchmark=benchmark, data=data, model=model) for seed in range(2)]
        events = []
        watch = silent()._replace(log=lambda event, **facts: events.append((event, facts)))
        found = subject.train(runs, Execution(execution=asked, device="cpu"), watch)

        assert [outcome.rid for outcome in found] == [run.rid for run in runs]
        assert all(len(outcome.record.accuracy) == 3 for outcome in found)
        assert [event for event, _ in events] == ["training"] + ["task_end"] * 3

    @pytest.mark.parametrize(("asked", "place"), [("auto", "device"), ("host", "host")])
    def test_where_the_data_lie(self, make, asked, place):
        """On a processor `auto` leaves them where they are; asked for, steps are fed from the host. The log says which."""
        benchmark = Benchmark(name="synthetic", scenario="class", tasks=2, train_per_task=40, test_per_task=20)
        data = catalog.entry("benchmark", "synthetic").make(benchmark).data
        run = dataclasses.replace(make.run(0), benchmark=benchmark, data=data)
        events = []
        watch = silent()._replace(log=lambda event, **facts: events.append((event, facts)))
        subject.train([run], Execution(device="cpu", data_on_device=asked), watch)

        assert events[0][1]["data_on"] == place
