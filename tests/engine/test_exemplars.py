"""Exemplars chosen by herding, and prediction by the nearest mean of features."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contilab.engine.evaluate import Exam, Judge, evaluate, not_at_all
from contilab.engine.evaluate import test_exam as exam_of
from contilab.engine.exemplars import Means, chosen, class_means, closeness
from contilab.engine.judge import judge_of
from contilab.engine.memory.entries import no_entries
from contilab.engine.memory.herding import herd
from contilab.engine.memory.occupancy import herding_quotas, occupied
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.setup import initial_members
from contilab.models.contract import Forward
from contilab.spec.sections import Benchmark, Memory

HERDING = Memory(total=20, policy="herding", insert="task_end")


def features(seed, count=30, width=5):
    """Return random features, as a ReLU gives them."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).clamp(min=0) + 0.01


def brute_force(values, count):
    """Return the places that the formula of the paper chooses, candidate by candidate."""
    unit = normalize(values.double(), dim=1)
    mean, places = unit.mean(0), []
    for number in range(1, count + 1):
        gaps = {
            place: float((mean - (unit[place] + sum(unit[old] for old in places)) / number).norm())
            for place in range(len(unit))
            if place not in places
        }
        places.append(min(gaps, key=gaps.get))
    return places


def entries_of(samples, capacity=20, rows=6):
    """Return a memory that holds *samples*."""
    entries = no_entries(capacity, rows, filler=0)
    entries.samples[: len(samples)] = samples
    entries.number[: len(samples)] = range(1, len(samples) + 1)
    return entries


def identity(setup):
    """Return *setup* with a model whose features are its inputs and whose logits are zeros."""
    rows = setup.stream.head_rows

    def forward(_params, _buffers, x):
        return Forward(features=x, logits=x.new_zeros(len(x), rows))

    return setup._replace(learner=setup.learner._replace(model=setup.learner.model._replace(forward=forward)))


class TestHerding:
    """Which samples of a class are chosen."""

    @pytest.mark.parametrize("seed", range(5))
    def test_chooses_what_the_formula_says(self, seed):
        """Twelve choices of thirty are those of a search over all candidates."""
        assert herd(features(seed), 12) == brute_force(features(seed), 12)

    def test_hand_case(self):
        """Unit vectors at 0, 45 and 90 degrees have their mean at 45; then the first of two equals is taken."""
        assert herd(torch.tensor([[2.0, 0.0], [3.0, 3.0], [0.0, 5.0]]), 3) == [1, 0, 2]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_shorter_list_begins_a_longer_one(self, seed):
        """Lists of 1 to 30 choices are prefixes of each other, without repetition."""
        longest = herd(features(seed), 30)

        assert sorted(longest) == list(range(30))
        assert all(herd(features(seed), count) == longest[:count] for count in range(31))

    def test_more_than_there_are_is_all(self):
        """A class of 30 samples gives 30."""
        assert len(herd(features(0), 99)) == 30

    def test_features_of_norm_0_count_as_they_are(self):
        """A dead sample lies at the origin, farther from the mean than all others."""
        values = features(1)
        values[4] = 0

        assert herd(values, 30) == brute_force(values, 30)

    def test_shared_rows_divide_their_quota(self):
        """Domain-incremental, two rows in each of two tasks: 20 entries are 5 of each task and row, none is lost."""
        offered = np.array([[9, 9], [9, 9]])

        assert herding_quotas(offered, 20).tolist() == [[5, 5], [5, 5]]

    @pytest.mark.parametrize(
        ("policy", "held"), [("reservoir", 12), ("class_balanced", 12), ("ring", 6), ("ring_class", 8), ("herding", 8)]
    )
    def test_occupancy_follows_from_the_policy(self, policy, held):
        """Two samples of row 0 and thirty of row 1 in one of two tasks, twelve slots."""
        plan = MemoryPlan(12, batch=4, names=(), policy=policy, tasks=2, rows=2)

        assert occupied(np.array([[2, 30], [0, 0]]), plan) == held

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_memory_holds_what_was_planned(self, make, scenario):
        """After each stage of er with herding, entries are as many as the plan says, all distinct, of all tasks so far."""
        run = make.run(method="er", scenario=scenario, memory=HERDING)
        setup = make.setup([run])
        entries = no_entries(20, 6, filler=0)
        params = initial_members(setup)[0].params
        for stage in setup.stages:
            samples = chosen(setup, stage, params, entries, not_at_all)
            entries = entries_of(samples)
            tasks = {int(setup.stream.train_tasks[sample]) for sample in samples}

            assert len(samples) == len(set(samples)) == 20 - 2 * (stage.task == 2)
            assert tasks == set(range(stage.task + 1))

    def test_more_classes_than_entries_leave_nothing(self, make):
        """A quota of 0 holds for a new class as well, however few of the classes so far hold an entry."""
        run = make.run(method="icarl", memory=Memory(total=3, policy="herding", insert="task_end"))
        setup = make.setup([run])
        params = initial_members(setup)[0].params
        first = chosen(setup, setup.stages[0], params, no_entries(3, 6, filler=0), not_at_all)
        second = chosen(setup, setup.stages[1], params, entries_of(first, 3), not_at_all)

        assert (len(first), second) == (2, [])

    def test_may_be_ended_before_each_batch(self, make):
        """What a look raises ends the choice."""
        setup = make.setup([make.run(method="icarl")])

        def look():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            chosen(setup, setup.stages[0], initial_members(setup)[0].params, no_entries(20, 6, filler=0), look)


class TestNearestMean:
    """The head that predicts the nearest mean."""

    def test_hand_case(self):
        """Means at 0 and 90 degrees: 30 degrees is nearer to the first, 60 to the second, whatever the lengths."""
        means = Means(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([True, True]))
        angles = torch.deg2rad(torch.tensor([30.0, 60.0]))
        found = closeness(means, torch.stack([angles.cos(), angles.sin()], 1) * torch.tensor([[7.0], [0.1]]))

        assert found.argmax(1).tolist() == [0, 1]
        # The chord of 30 degrees is 2 sin 15 degrees.
        assert float(-found[0, 0]) == pytest.approx(2 * np.sin(np.deg2rad(15)), abs=1e-6)

    def test_mean_is_of_normalised_features_and_normalised(self, make):
        """Features (3, 0, ...) and (0, 0.1, ...) of one class count alike: the mean points between them and has norm 1."""
        setup = identity(make.setup([make.run(method="icarl")]))
        setup.stream.train_inputs[:2] = 0
        setup.stream.train_inputs[0, 0], setup.stream.train_inputs[1, 1] = 3.0, 0.1
        setup.stream.train_rows[:2] = 4
        means = class_means(setup, {}, entries_of([0, 1]), not_at_all)

        assert means.is_known.tolist() == [False] * 4 + [True, False]
        assert means.means[4, :3].tolist() == pytest.approx([0.5**0.5, 0.5**0.5, 0.0])

    def test_class_without_an_entry_is_not_predicted(self):
        """Row 1 is nearest of all but has no entry: the next one is predicted; without any, none is."""
        exam = exam_of_scores(torch.tensor([[0.1, 0.9, 0.2], [0.3, 0.9, 0.2]]), target=[0, 1])
        known = torch.tensor([True, False, True])
        marks = marks_of(exam, known)
        nothing = marks_of(exam, torch.zeros(3, dtype=torch.bool))

        assert marks.prediction.tolist() == marks.prediction_all_rows.tolist() == [2, 0]
        assert nothing.prediction.tolist() == nothing.prediction_all_rows.tolist() == [-1, -1]
        assert (nothing.accuracy, nothing.all_rows) == ([0.0], [0.0])

    def test_has_no_confidence(self):
        """Distances are no probabilities, so that calibration is absent."""
        marks = marks_of(exam_of_scores(torch.rand(4, 3), target=[0] * 4), torch.ones(3, dtype=torch.bool))

        assert marks.confidence.isnan().all()

    @pytest.mark.parametrize("scenario", ["task", "class"])
    @pytest.mark.parametrize("method", ["er", "derpp", "icarl"])
    def test_is_not_measured_before_it_has_entries(self, make, method, scenario):
        """The untrained model and tasks not yet learned have no accuracy, rather than one of 0."""
        settings = {} if method == "icarl" else {"head": "ncm"}
        [outcome] = make.outcomes([make.run(method=method, settings=settings, scenario=scenario)])
        record = outcome.record

        assert record.baseline == [None] * 3
        assert [[cell is None for cell in row] for row in record.accuracy] == [
            [False, True, True],
            [False, False, True],
            [False] * 3,
        ]
        assert record.notes["head"] == "ncm"
        assert record.notes["classes_without_entry"] == 0

    def test_counts_classes_without_an_entry(self, make):
        """A ring of the last two samples has entries of two classes at most: at least four of six are noted."""
        run = make.run(method="er", settings={"head": "ncm"}, memory=Memory(total=2, policy="reservoir"))
        [outcome] = make.outcomes([run])

        assert outcome.record.notes["classes_without_entry"] in (4, 5)

    def test_leaves_training_as_it_is(self, make):
        """The head changes what is predicted, not what is learned."""
        linear, nearest = (make.outcomes([make.run(method="er", settings={"head": head})])[0] for head in ("linear", "ncm"))

        assert all(np.array_equal(linear.parameters[name], nearest.parameters[name]) for name in linear.parameters)
        assert not np.array_equal(linear.tensors["prediction"], nearest.tensors["prediction"])

    def test_predicts_separated_clouds(self, make):
        """On raw inputs as features, means of twenty entries tell most of six well-separated classes apart."""
        setup = identity(make.setup([make.run(method="er", settings={"head": "ncm"})]))
        held = torch.cat([task.train[:20] for task in setup.stream.tasks])
        judge = judge_of(setup, {}, entries_of(held.tolist(), capacity=60), not_at_all)
        marks = evaluate(judge, exam_of(setup.stream), setup.shared.benchmark, setup.rows, last=2)

        assert np.mean(marks.accuracy) > 0.8


def exam_of_scores(scores, target):
    """Return an exam of one task whose inputs are the scores."""
    return Exam(scores, torch.arange(len(scores)), torch.tensor(target), [len(scores)])


def marks_of(exam, known):
    """Return the marks of a judge whose scores are the inputs."""
    judge = Judge(lambda x: x, known)
    return evaluate(judge, exam, Benchmark(name="b", scenario="class"), ((0, 1, 2),), last=0)
