"""The landscape of `eval.tier = "full"`: losses between parameters, cosines of task gradients, and how fast tasks come back."""

import dataclasses
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch.nn.functional import cross_entropy

from contilab import catalog
from contilab.engine import streams
from contilab.engine import train as train_module
from contilab.engine.ensemble import clone
from contilab.engine.environment import EXECUTIONS
from contilab.engine.evaluate import not_at_all
from contilab.engine.recording import few_shot, landscape, survey
from contilab.engine.recording.gradients import SAMPLES, cosines, mean_gradient, samples_of, task_gradients
from contilab.engine.recording.interpolation import between, losses_between
from contilab.engine.setup import initial_members
from contilab.errors import Stopped
from contilab.metrics.compute import compute
from contilab.metrics.landscape import loss_barrier
from contilab.spec.sections import Benchmark, Eval, Memory, Train

NAMES = ("interpolation_loss", "gradient_cosine", "few_shot_accuracy")
METRICS = ("loss_barrier", "grad_cosine", "interference", "few_shot_recovery")
SEEN = {"task": [2, 3], "class": [0, 1, 2, 3, 4, 5], "domain": [0, 1, 2, 3, 4, 5]}  # rows that task 1 is tested with at the end

every_scenario = pytest.mark.parametrize("scenario", SEEN)
QUICK = ("naive", "ewc", "derpp", "icarl", "gdumb")
every_method = pytest.mark.parametrize(
    "method", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in catalog.STRATEGIES]
)


def full(run):
    """Return *run* with everything recorded."""
    return dataclasses.replace(run, eval=Eval(tier="full"))


def trained(outcome):
    """Return what training made of a run, in all its bits."""
    record = outcome.record
    tables = (record.accuracy, record.accuracy_all_rows, record.validation, record.train_loss, record.diverged)
    answers = [outcome.tensors[name].tobytes() for name in ("prediction", "confidence", "prediction_all_rows")]
    return tables, answers, {name: value.tobytes() for name, value in outcome.parameters.items()}


def bits(outcome):
    """Return the landscape of a run in all its bits."""
    return {name: outcome.tensors[name].tobytes() for name in NAMES}


def ended(make, run, outcome, stream=None):
    """Return the setup of *run*, and its member as it was at the end."""
    setup = make.setup([run], stream)
    params = {name: torch.from_numpy(value) for name, value in outcome.parameters.items()}
    return setup, initial_members(setup)[0]._replace(params=params)


class TestTraining:
    """Measuring changes nothing of what it measures."""

    @pytest.mark.parametrize("way", EXECUTIONS)
    @pytest.mark.parametrize("method", ["ewc", "derpp"])
    def test_numbers_are_those_of_the_core_tier(self, make, method, way):
        """Weights, matrices, predictions and losses of two members have the same bits with everything recorded and without."""
        runs = [make.run(seed, method) for seed in (3, 8)]
        measured = make.outcomes([full(run) for run in runs], way)

        assert [trained(one) for one in measured] == [trained(one) for one in make.outcomes(runs, way)]

    @every_method
    def test_chance_decides_the_same(self, make, drawn, method):
        """What is drawn in each step is the same with and without."""
        make.outcomes([make.run(5, method)])
        plain = list(drawn)
        drawn.clear()
        make.outcomes([full(make.run(5, method))])

        assert drawn == plain

    def test_a_member_has_the_landscape_of_the_same_seed_alone(self, make):
        """Under the loop it has the same bits in a group of three."""
        runs = [full(make.run(seed, "er")) for seed in (1, 2, 3)]
        [alone] = make.outcomes(runs[1:2])

        assert bits(make.outcomes(runs)[1]) == bits(alone)

    @pytest.mark.parametrize("tier", ["core", "extended"])
    def test_without_the_tier_nothing_is_measured(self, make, tier):
        """Runs of other tiers have no landscape, and their metrics say what it needs."""
        [outcome] = make.outcomes([dataclasses.replace(make.run(), eval=Eval(tier=tier))])
        values = compute(outcome.record, outcome.tensors)

        assert not {*NAMES} & outcome.tensors.keys()
        assert "landscape" not in outcome.record.notes
        assert all(values[name].reason.endswith("it needs eval.tier full") for name in METRICS)

    def test_the_end_is_counted_as_recording(self, make, monkeypatch):
        """A hundred seconds for lines and relearning at the end of a run are among its seconds of recording."""
        clock, late, measure = time.perf_counter, [], train_module.measure_end

        def slowly(*words):
            late.append(100.0)
            measure(*words)

        monkeypatch.setattr(time, "perf_counter", lambda: clock() + sum(late))
        monkeypatch.setattr(train_module, "measure_end", slowly)
        [outcome] = make.outcomes([full(make.run())])

        assert outcome.record.cost.seconds_group > outcome.record.cost.seconds_recording > 100


class TestInterpolation:
    """Losses on the line between two parameters."""

    def test_no_barrier_between_equal_parameters(self, make):
        """Where nothing moved, all losses are the same and the barrier is 0."""
        setup = make.setup([make.run()])
        [member] = initial_members(setup)
        losses, passes = losses_between(setup, member.params, member.params, task=0, look=not_at_all)

        assert len(set(losses)) == 1
        assert abs(loss_barrier(np.array(losses))) < 1e-12  # rounding of the straight line
        assert passes == 11 * 20

    def test_ends_are_exact(self):
        """At both ends the parameters are those given, in all bits."""
        begin, end = {"w": torch.tensor([1e-8, 3.3])}, {"w": torch.tensor([7.1, -1e8])}

        assert torch.equal(between(begin, end, 0.0)["w"], begin["w"])
        assert torch.equal(between(begin, end, 1.0)["w"], end["w"])

    def test_between_ends_by_hand(self, make):
        """In the middle each parameter is the mean of both ends, and the loss there is that of a model with these."""
        setup = make.setup([make.run(seed) for seed in (1, 2)])
        begin, end = (member.params for member in initial_members(setup))
        middle = {name: (value + end[name]) / 2 for name, value in begin.items()}
        test = setup.stream.tasks[0].test
        logits = setup.learner.model.forward(middle, {}, setup.stream.test_inputs[test]).logits
        losses, _ = losses_between(setup, begin, end, task=0, look=not_at_all)

        assert between({"w": torch.tensor([1.0, -3.0])}, {"w": torch.tensor([2.0, 5.0])}, 0.5)["w"].tolist() == [1.5, 1.0]
        assert losses[5] == pytest.approx(float(cross_entropy(logits, setup.stream.test_rows[test])), rel=1e-5)

    @every_scenario
    def test_losses_are_under_the_mask_of_the_last_exam(self, make, scenario):
        """The line of task 1 ends with the mean cross entropy of its test samples among the rows that it is tested with."""
        run, stream = full(make.run(3, scenario=scenario)), make.stream()
        [outcome] = make.outcomes([run], stream=stream)
        setup, member = ended(make, run, outcome, stream)
        test = stream.tasks[1].test
        logits = setup.learner.model.forward(member.params, {}, stream.test_inputs[test]).logits[:, SEEN[scenario]]
        label = torch.tensor([SEEN[scenario].index(row) for row in stream.test_rows[test].tolist()])

        assert outcome.tensors["interpolation_loss"].shape == (2, 11)
        assert outcome.tensors["interpolation_loss"][1, -1] == pytest.approx(float(cross_entropy(logits, label)), rel=1e-5)

    def test_samples_are_those_of_the_stream(self, make):
        """With eval.stream_samples = 5, five test samples are passed through the model at each place."""
        run = dataclasses.replace(make.run(), eval=Eval(tier="full", stream_samples=5))
        setup = make.setup([run])
        [member] = initial_members(setup)

        assert losses_between(setup, member.params, member.params, task=0, look=not_at_all)[1] == 11 * 5


class TestGradients:
    """Cosines of the mean gradients of tasks."""

    def test_by_hand(self):
        """A gradient with itself 1, with its opposite -1, with one at a right angle 0; tasks not begun have none."""
        g = {"w": torch.tensor([[3.0, 0.0]]), "b": torch.tensor([4.0])}
        opposite = {name: -value for name, value in g.items()}
        aside = {"w": torch.tensor([[0.0, 5.0]]), "b": torch.tensor([0.0])}
        found = cosines([g, opposite, aside], 4)

        assert found[:3, :3].tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 1]]
        assert found[3].isnan().all()
        assert found[:, 3].isnan().all()

    def test_a_zero_gradient_has_no_cosine(self):
        """Where a gradient is zero, its cosines are nan and the others stand."""
        found = cosines([{"w": torch.tensor([2.0])}, {"w": torch.tensor([0.0])}], 2)

        assert found[0, 0] == 1
        assert found[1].isnan().all()

    @every_scenario
    def test_each_task_with_itself(self, make, scenario):
        """After each stage a task begun has the cosine 1 with itself, pairs are symmetric, and others are nan."""
        [outcome] = make.outcomes([full(make.run(2, "er", scenario=scenario))])
        found = outcome.tensors["gradient_cosine"]
        begun = np.arange(3) <= np.arange(3)[:, None]

        assert np.array_equal(np.isnan(found), ~(begun[:, :, None] & begun[:, None]))
        assert all((found[stage].diagonal()[: stage + 1] == 1).all() for stage in range(3))
        assert np.allclose(found, found.transpose(0, 2, 1), equal_nan=True, atol=1e-12)

    def test_parts_add_up_to_the_mean(self, make):
        """300 samples, in parts of 128: the gradient of their mean cross entropy among all rows seen, by autograd in one go."""
        stream = make.stream(sizes=(300, 40))
        setup = make.setup([make.run()], stream)
        [member] = initial_members(setup)
        [grads], count = task_gradients(setup, member.params, last=0, look=not_at_all)
        leaves = {name: value.requires_grad_() for name, value in clone(member.params).items()}
        train = stream.tasks[0].train
        logits = setup.learner.model.forward(leaves, {}, stream.train_inputs[train]).logits[:, :2]
        wanted = torch.autograd.grad(cross_entropy(logits, stream.train_rows[train]), tuple(leaves.values()))

        assert count == 300
        assert all(torch.allclose(mine, own, atol=1e-6) for mine, own in zip(grads.values(), wanted, strict=True))

    def test_samples_are_chosen_by_hash_of_training_data(self, make):
        """Of 700 training samples 512, the same whatever the seed, none of validation, and not simply the first."""
        stream = make.stream(sizes=(700, 40))
        one, other = (samples_of(make.setup([make.run(seed)], stream), 0).tolist() for seed in (1, 2))
        train = stream.tasks[0].train.tolist()

        assert one == other
        assert len(set(one)) == SAMPLES
        assert set(one) <= set(train)
        assert one != train[:SAMPLES]

    def test_rows_not_seen_are_left_out(self, make):
        """In a blurry stream, samples of task 0 whose classes are not yet seen are no part of its gradient."""
        benchmark = Benchmark(name="gaussians", scenario="class", blurry_share=0.3)
        setup = make.setup([make.run(benchmark=benchmark)])
        [member] = initial_members(setup)
        _, first = task_gradients(setup, member.params, last=0, look=not_at_all)
        _, everything = task_gradients(setup, member.params, last=2, look=not_at_all)

        assert (first, everything) == (28, 120)  # 12 of 40 are of other tasks

    def test_no_sample_no_gradient(self, make):
        """Without samples the gradient is zero."""
        setup = make.setup([make.run()])
        [member] = initial_members(setup)
        nothing = torch.empty(0, dtype=torch.int64)
        grads = mean_gradient(setup, member.params, nothing, torch.ones(6, dtype=torch.bool), not_at_all)

        assert not any(value.any() for value in grads.values())


class TestFewShot:
    """How fast earlier tasks come back."""

    @every_method
    def test_without_a_step_it_is_the_last_row(self, make, monkeypatch, method):
        """After 0 steps the accuracies are those of the matrix at the end, whatever predicts."""
        if method == "joint":
            pytest.skip("joint training has no earlier task")
        monkeypatch.setattr(few_shot, "STEPS", 0)
        [outcome] = make.outcomes([full(make.run(4, method))])

        assert outcome.tensors["few_shot_accuracy"].tolist() == outcome.record.accuracy[-1][:-1]

    @every_scenario
    def test_one_step_by_hand(self, make, scenario):
        """One step moves the parameters by rate times the gradient of the first batch drawn, under the task's training mask."""
        run, stream = full(make.run(6, scenario=scenario)), make.stream()
        [outcome] = make.outcomes([run], stream=stream)
        setup, member = ended(make, run, outcome, stream)
        moved, seen = few_shot.relearned(setup, member, 6, task=1, steps=1, look=not_at_all)
        order = streams.permutation(6, streams.FEW_SHOT, task=1, index=0, count=33)
        batch = stream.tasks[1].train[torch.from_numpy(order[:16])]
        leaves = {name: value.requires_grad_() for name, value in clone(member.params).items()}
        logits = setup.learner.model.forward(leaves, {}, stream.train_inputs[batch]).logits[:, SEEN[scenario]]
        label = torch.tensor([SEEN[scenario].index(row) for row in stream.train_rows[batch].tolist()])
        grads = torch.autograd.grad(cross_entropy(logits, label), tuple(leaves.values()))
        wanted = [value - 0.05 * grad for value, grad in zip(member.params.values(), grads, strict=True)]

        assert seen == 16
        assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(moved.params.values(), wanted, strict=True))

    def test_the_member_stays_as_it_is(self, make):
        """Learning again happens on a copy: parameters and optimiser of the member keep their bits."""
        setup = make.setup([make.run(optim=("sgd", {"lr": 0.05, "momentum": 0.9}))])
        [member] = initial_members(setup)
        before = clone(member)
        few_shot.relearned(setup, member, 0, task=0, steps=3, look=not_at_all)

        assert all(torch.equal(member.params[name], value) for name, value in before.params.items())
        assert all(torch.equal(member.optimiser.velocity[name], value) for name, value in before.optimiser.velocity.items())

    def test_what_is_forgotten_comes_back(self, make):
        """On tasks far apart, ten steps bring back more than nothing of what was lost."""
        [outcome] = make.outcomes([full(make.run(7, train=Train(steps=60, batch=16)))])

        assert compute(outcome.record, outcome.tensors)["few_shot_recovery"] > 0.5


class TestRecord:
    """What a run leaves."""

    def test_metrics_read_it(self, make):
        """All metrics of the tier have a value."""
        [outcome] = make.outcomes([full(make.run(7, "er", train=Train(steps=30, batch=8)))])
        values = compute(outcome.record, outcome.tensors)

        assert values["loss_barrier"] >= 0
        assert -1 <= values["grad_cosine"] <= 1
        assert 0 <= values["interference"] <= 1
        assert isinstance(values["few_shot_recovery"], float)
        assert outcome.record.notes["landscape"]["few_shot_steps"] == 10

    def test_passes_are_counted(self, make):
        """What is measured is worth 699 passes for gradients, 440 along lines, 753 in steps and 40 in their exams."""
        run = make.run()
        [extended], [measured] = (make.outcomes([dataclasses.replace(run, eval=Eval(tier=t))]) for t in ("extended", "full"))
        flops = make.setup([run]).learner.model.flops

        assert measured.record.cost.flops == extended.record.cost.flops
        assert measured.record.cost.flops_evaluation - extended.record.cost.flops_evaluation == flops * (699 + 440 + 753 + 40)

    def test_joint_training_has_none(self, make):
        """With one stage nothing is measured, and metrics say so."""
        [outcome] = make.outcomes([full(make.run(method="joint"))])
        values = compute(outcome.record, outcome.tensors)

        assert not {*NAMES} & outcome.tensors.keys()
        assert {values[name].reason for name in METRICS} == {"joint has one training stage"}

    def test_one_task_has_none(self, make):
        """With one task nothing is measured, and metrics say so."""
        run = full(make.run(benchmark=Benchmark(name="gaussians", scenario="class", tasks=1)))
        [outcome] = make.outcomes([run], stream=make.stream(sizes=(40,)))
        values = compute(outcome.record, outcome.tensors)

        assert {values[name].reason for name in METRICS} == {"one task only"}

    def test_a_diverged_member_says_so(self, make):
        """Its metrics are absent with the step in which it diverged; its mate has all of them."""
        runs = [full(make.run(seed, optim=("sgd", {"lr": lr}))) for seed, lr in ((0, 0.05), (1, 1e30))]
        mate, lost = make.outcomes(runs)
        values = compute(lost.record, lost.tensors)

        assert all(values[name].reason.startswith("the run diverged in task 0") for name in METRICS)
        assert not any(np.isnan(mate.tensors[name]).any() for name in ("interpolation_loss", "few_shot_accuracy"))

    def test_more_than_is_kept(self, make, monkeypatch):
        """Where parameters are too large to be kept, lines and cosines are absent with that reason; tasks come back still."""
        monkeypatch.setattr(landscape, "MOST_BYTES", 1000)
        [outcome] = make.outcomes([full(make.run())])
        values = compute(outcome.record, outcome.tensors)

        assert {values[name].reason for name in METRICS[:3]} == {
            "the parameters of so many tasks, or so large ones, are not kept"
        }
        assert isinstance(values["few_shot_recovery"], float)


class TestResume:
    """A landscape goes on where it was stopped."""

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    @every_method
    def test_stopped_and_resumed_it_is_that_of_one_go(self, make, looks, method, way):
        """Stopped within and at the end of tasks, all tensors and counted costs are those of one go."""
        runs = [full(make.run(seed, method)) for seed in (3, 8)]

        assert make.facts(make.in_pieces(runs, way, [1, 6, 8, 12, 15])) == make.facts(make.outcomes(runs, way))

    @pytest.mark.parametrize("is_due", [True, False], ids=["kept at the end of tasks", "kept when stopped"])
    @pytest.mark.parametrize("place", [1, 13, 40, 70])
    def test_stopped_while_the_end_is_measured(self, make, monkeypatch, place, is_due):
        """Whichever look stops the last measurement, what was kept leads to the landscape of one go."""
        runs = [full(make.run(seed, "er", memory=Memory(total=20, batch=8))) for seed in (3, 8)]
        whole, shelf, looks = make.outcomes(runs), make.Shelf(), iter(range(10**6))
        is_at_end = []

        def beginning(*arguments):
            is_at_end.append(True)
            survey.measure_end(*arguments)

        monkeypatch.setattr(train_module, "measure_end", beginning)
        stops = shelf.watch._replace(stop=lambda: bool(is_at_end) and next(looks) == place)
        with pytest.raises(Stopped):
            make.outcomes(runs, watch=stops._replace(is_due_at_task_end=lambda: is_due))
        monkeypatch.undo()
        resumed = make.outcomes(runs, resume=shelf.kept[-1].files)

        assert make.facts(resumed) == make.facts(whole)

    def test_what_a_snapshot_holds_more(self, make):
        """At the end of each task but the last, its parameters join the file of a member; cosines have a line per task."""
        run = full(make.run())
        kept = [load(snapshot.files[f"{run.rid}.safetensors"]) for snapshot in make.shelf_of([run]).kept]
        own = [{name for name in tensors if name.startswith("landscape.")} for tensors in kept]
        params = [*make.outcomes([run])[0].parameters]

        assert [len(names) for names in own] == [1 + len(params), 1 + 2 * len(params), 1 + 2 * len(params)]
        assert [len(tensors["landscape.cosine"]) for tensors in kept] == [1, 2, 3]


class TestAddress:
    """The tier in the address of a run."""

    def test_each_tier_has_its_own(self, make):
        """Runs of the three tiers have three addresses."""
        tiers = ("core", "extended", "full")

        assert len({dataclasses.replace(make.run(), eval=Eval(tier=tier)).rid for tier in tiers}) == 3
