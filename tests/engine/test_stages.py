"""Stages of training: which samples each has, for how many steps, and what they cost.

Sizes are 40, 33 and 47 training samples, batches of 16, two epochs, memory of 20 entries, six classes in three tasks.
"""

import numpy as np
import pytest
import torch

from contilab.engine.draws import Draws
from contilab.engine.evaluate import test_exam
from contilab.spec.sections import Memory, Train

test_exam.__test__ = False  # a function of the engine, not a test
FORWARD = 2 * (12 * 16 + 16 * 16 + 16 * 6)  # floating-point operations per sample


@pytest.fixture
def learned(monkeypatch):
    """Return a list that gets, of every chunk, task, epoch, samples [E, S * B], and what each member held before it."""
    seen = []
    chunk = Draws.chunk

    def noting(self, stage, piece, memory):
        draws = chunk(self, stage, piece, memory)
        samples = draws.current.transpose(0, 1).reshape(len(self.seeds), -1).numpy()
        seen.append((stage.task, piece.epoch, samples, [entries.held.tolist() for entries in memory.entries()]))
        return draws

    monkeypatch.setattr(Draws, "chunk", noting)
    return seen


def per_epoch(learned, member=0):
    """Return the samples that a member learns, by task and epoch, in their order."""
    found = {}
    for task, epoch, samples, _ in learned:
        found.setdefault((task, epoch), []).extend(samples[member].tolist())
    return found


def training_parts(setup):
    """Return the training samples of each task."""
    return [set(task.train.tolist()) for task in setup.stream.tasks]


class TestCumulative:
    """Each stage has the data of all tasks so far."""

    def test_every_epoch_has_each_sample_of_the_tasks_so_far_once(self, make, learned):
        """Epochs of task t are permutations of D_0 to D_t; the last one has the samples of joint training."""
        run = make.run(method="cumulative")
        make.outcomes([run])
        parts = training_parts(make.setup([run]))
        (joint,) = make.setup([make.run(method="joint")]).stages

        for (task, _), samples in per_epoch(learned).items():
            assert sorted(samples) == sorted(set.union(*parts[: task + 1]))
        assert sorted(per_epoch(learned)[2, 1]) == sorted(joint.samples.tolist())

    def test_goes_on_or_begins_anew(self, make):
        """With restart, the last stage alone decides: a run whose first task is other data ends at the same bits."""
        stream = make.stream()
        other = stream._replace(tasks=(stream.tasks[1], stream.tasks[0], stream.tasks[2]))

        def final(tasks, *, restart):
            run = make.run(method="cumulative", settings={"restart": restart}, train=Train(steps=4, batch=120))
            return make.outcomes([run], stream=tasks)[0].parameters["head.weight"]

        # One batch of all 120 samples: only their order within sums differs, hence a tolerance of float32 rounding.
        assert np.allclose(final(stream, restart=True), final(other, restart=True), atol=1e-5)
        assert not np.allclose(final(stream, restart=False), final(other, restart=False), atol=1e-3)

    def test_costs_grow_with_the_tasks(self, make):
        """Two epochs of 40, 73 and 120 samples are 6, 10 and 16 steps, all of them new samples."""
        cost = make.outcomes([make.run(method="cumulative")])[0].record.cost

        assert (cost.train_steps, cost.samples_new, cost.samples_replayed) == (32, 466, 0)
        assert cost.flops == 3 * FORWARD * 466

    def test_leaves_what_intransigence_needs(self, make):
        """Its matrix has a row per task with a measured diagonal."""
        record = make.outcomes([make.run(method="cumulative")])[0].record

        assert (record.stages, len(record.accuracy)) == (3, 3)
        assert None not in [record.accuracy[task][task] for task in range(3)]


class TestMemoryAlone:
    """GDumb: the stream fills memory, and only its entries are learned."""

    def test_every_epoch_has_each_entry_once(self, make, learned):
        """Whatever is learned lies in memory, in every pass all of it, and memory stands still meanwhile."""
        make.outcomes([make.run(seed, "gdumb") for seed in (0, 1)])

        for member in (0, 1):
            held = {task: own[member] for task, _, _, own in learned}
            assert all(sorted(samples) == sorted(held[task]) for (task, _), samples in per_epoch(learned, member).items())
            assert all(own[member] == held[task] for task, _, _, own in learned)

    def test_memory_is_balanced_over_the_classes_so_far(self, make, learned):
        """20 entries are 10 of each of two classes, then 5 of four, then 3 or 4 of six."""
        run = make.run(method="gdumb")
        make.outcomes([run])
        rows = make.setup([run]).stream.train_rows.numpy()
        counts = {task: np.bincount(rows[held[0]], minlength=6) for task, _, _, held in learned}

        assert [counts[task][: 2 * task + 2].tolist() for task in (0, 1)] == [[10, 10], [5, 5, 5, 5]]
        assert set(counts[2].tolist()) == {3, 4}

    def test_begins_anew_at_each_task(self, make):
        """A memory larger than the data, all in one batch: the last stage is the run that had all data in its only task."""
        settings = {"passes": 5, "batch": 200}
        run = make.run(method="gdumb", settings=settings, memory=Memory(total=200, policy="class_balanced"), scenario="domain")
        stream = make.stream()
        merged = stream.tasks[0]._replace(
            rows=tuple(range(6)),
            train=joined(stream, "train"),
            validation=joined(stream, "validation"),
            test=joined(stream, "test"),
        )
        alone = stream._replace(tasks=(merged,), train_tasks=torch.zeros_like(stream.train_tasks))
        split = make.outcomes([run], stream=stream)[0].parameters
        whole = make.outcomes([run], stream=alone)[0].parameters

        assert all(np.allclose(split[name], whole[name], atol=1e-5) for name in split)  # the order within sums differs

    def test_has_its_own_batches_rates_and_losses(self, make, learned):
        """20 entries in batches of 16 are 2 steps a pass; each pass has a mean loss, though the preset counts in steps."""
        run = make.run(method="gdumb", settings={"passes": 4}, train=Train(steps=9, batch=3))
        record = make.outcomes([run])[0].record

        assert [len(losses) for losses in record.train_loss] == [4, 4, 4]
        assert record.cost.train_steps == 3 * 4 * 2
        assert {len(samples[0]) for _, _, samples, _ in learned} == {16, 4}

    def test_first_pass_has_a_tenth_of_the_rate(self, make):
        """One pass of plain descent over one batch at ten times the rate goes ten times as far."""
        moves = []
        for lr in (0.01, 0.1):
            settings = {"passes": 1, "batch": 40, "lr": lr, "lr_end": 0.0, "momentum": 0.0, "weight_decay": 0.0}
            stream = make.stream((20,))
            [outcome] = make.outcomes([make.run(method="gdumb", settings=settings)], stream=stream)
            first = make.outcomes([make.run(method="gdumb", memory=Memory(total=0))], stream=stream)[0]
            moves.append(outcome.parameters["head.weight"] - first.parameters["head.weight"])

        assert np.allclose(10 * moves[0], moves[1], rtol=1e-3, atol=1e-6)

    def test_costs_count_its_own_training(self, make):
        """Three passes over 20 entries at each of three task ends, none of them new."""
        cost = make.outcomes([make.run(method="gdumb")])[0].record.cost

        assert (cost.train_steps, cost.samples_new, cost.samples_replayed) == (18, 0, 180)
        assert cost.flops == 3 * FORWARD * 180
        assert cost.buffer_bytes == 8 * 20

    def test_notes_say_that_there_is_no_stream(self, make):
        """Stream metrics have no value, and everything that was learned came from memory."""
        notes = make.outcomes([make.run(method="gdumb")])[0].record.notes

        assert notes == {"memory_share": [1.0, 1.0, 1.0], "stream_metrics": "absent: no training on the stream"}


class TestExemplars:
    """iCaRL: a task is learned together with all entries of memory."""

    def test_every_epoch_has_the_task_and_all_exemplars(self, make, learned):
        """Epochs are permutations of D_t and of what memory holds, for each member its own."""
        run = make.run(method="icarl")
        make.outcomes([run, make.run(1, "icarl")])
        parts = training_parts(make.setup([run]))

        for member in (0, 1):
            held = {task: own[member] for task, _, _, own in learned}
            for (task, _), samples in per_epoch(learned, member).items():
                assert sorted(samples) == sorted([*parts[task], *held[task]])

    def test_memory_holds_equally_many_of_each_class_seen(self, make, learned):
        """Before tasks 1 and 2 there are 10 exemplars of each of two classes and 5 of each of four."""
        run = make.run(method="icarl")
        make.outcomes([run])
        rows = make.setup([run]).stream.train_rows.numpy()
        counts = {task: np.bincount(rows[held[0]], minlength=6).tolist() for task, _, _, held in learned}

        assert counts == {0: [0] * 6, 1: [10, 10, 0, 0, 0, 0], 2: [5, 5, 5, 5, 0, 0]}

    def test_lists_of_later_tasks_begin_those_of_earlier_ones(self, make, learned):
        """The exemplars of task 0 after task 1 are the first five of each list after task 0."""
        run = make.run(method="icarl")
        make.outcomes([run])
        held = {task: own[0] for task, _, _, own in learned}

        assert held[2][:10] == [*held[1][:5], *held[1][10:15]]

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_share_of_exemplars_is_noted_and_positive_after_task_0(self, make, way):
        """Of each epoch 0, 20 of 53 and 20 of 67 samples are exemplars, as counted in the batches themselves."""
        outcomes = make.outcomes([make.run(seed, "icarl") for seed in (0, 1)], way)

        for outcome in outcomes:
            assert outcome.record.notes["memory_share"] == pytest.approx([0.0, 20 / 53, 20 / 67])

    def test_costs_count_teacher_herding_and_means(self, make):
        """Learned are 40, 53 and 67 samples twice, by a teacher from task 1 on; each task is herded once."""
        run = make.run(method="icarl")
        cost = make.outcomes([run])[0].record.cost
        setup = make.setup([run])
        exams = 4 * (len(test_exam(setup.stream).samples) + 3 * 4)  # test and validation samples
        means = 20 + 20 + 18

        assert (cost.train_steps, cost.samples_new, cost.samples_replayed) == (24, 240, 80)
        assert cost.flops == FORWARD * (3 * 320 + 2 * (53 + 67) + 120)
        assert cost.flops_evaluation == FORWARD * (exams + means)
        assert cost.buffer_bytes == 8 * 18
        assert cost.state_bytes == 4 * cost.params_total + 6

    def test_learns_and_remembers(self, make):
        """On well-separated clouds it is right on all tasks far above chance, where naive training forgets."""
        train = Train(epochs=8, batch=8)
        icarl, naive = (make.outcomes([make.run(method=method, train=train)])[0].record for method in ("icarl", "naive"))

        assert np.mean(icarl.accuracy[-1]) > 0.7
        assert np.mean(icarl.accuracy[-1]) > np.mean(naive.accuracy[-1]) + 0.2


def joined(stream, part):
    """Return the samples of *part* of all tasks."""
    return torch.cat([getattr(task, part) for task in stream.tasks])
