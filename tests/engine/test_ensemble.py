"""A member of an ensemble is the same seed alone: the keystone of the engine."""

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine.closing import end_of_task
from contilab.engine.draws import Draws
from contilab.engine.ensemble import initial_params
from contilab.engine.environment import EXECUTIONS
from contilab.engine.executions import vmap as execution
from contilab.engine.executions.loop import loop
from contilab.engine.setup import initial_members, initial_memory
from contilab.engine.stage import Session, train_stage
from contilab.engine.step import make_move
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.optim.contract import Optimiser
from contilab.spec.sections import Train

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
every_model = pytest.mark.parametrize("model", [name for name in catalog.MODELS if name != "mlp"])
every_optimiser = pytest.mark.parametrize("optim", catalog.OPTIMISERS)


def same_bits(one, other):
    """Tell whether two outcomes hold the same numbers."""
    parts = [(one.parameters, other.parameters), (one.tensors, other.tensors)]
    return one.record.train_loss == other.record.train_loss and all(
        a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a) for a, b in parts
    )


class TestLoop:
    """Members one after the other."""

    @every_method
    @every_optimiser
    def test_member_equals_the_seed_alone_bit_by_bit(self, make, method, optim):
        """A whole run in a group of three, in any order, is the run of its seed alone, for each method and optimiser."""
        runs = [make.run(seed, method, optim=(optim, {"lr": 0.01})) for seed in (5, 0, 2**53 - 1)]
        together = make.outcomes(runs)
        alone = [make.outcomes([run])[0] for run in runs]

        assert all(same_bits(*pair) for pair in zip(together, alone, strict=True))

    @every_model
    def test_member_of_every_model_equals_the_seed_alone(self, make, model):
        """So it is for each model of images, trained by naive steps."""
        stream = make.stream((6, 5), test=3, shape=(1, 8, 8))
        runs = [make.run(seed, model=(model, {})) for seed in (5, 0)]
        together = make.outcomes(runs, stream=stream)
        alone = [make.outcomes([run], stream=stream)[0] for run in runs]

        assert all(same_bits(*pair) for pair in zip(together, alone, strict=True))


class TestVmap:
    """All members in one call."""

    @every_method
    def test_loss_and_gradients_of_one_step_equal_the_loop(self, make, method):
        """In float32, with the state of a task behind, they agree within 1e-5 of their largest entry."""
        looped, mapped = (one_step(make, method, way) for way in ("loop", "vmap"))

        assert largest_relative_gap(looped, mapped) < 1e-5

    @every_method
    @every_optimiser
    def test_twenty_steps_in_float64_equal_the_loop(self, make, method, optim):
        """Parameters after 21 float64 steps over three tasks agree within 1e-9."""
        train = Train(steps=7, batch=16)
        runs = [make.run(seed, method, optim=(optim, {"lr": 0.01}), train=train) for seed in range(3)]
        looped, mapped = (make.outcomes(runs, way, dtype=torch.float64) for way in ("loop", "vmap"))

        assert largest_gap([one.parameters for one in looped], [one.parameters for one in mapped]) < 1e-9

    @every_method
    @every_optimiser
    def test_moving_members_together_equals_moving_them_alone(self, make, method, optim, monkeypatch):
        """The form for a GPU, the second half of the step vmapped as well, agrees within 1e-9 too."""
        train = Train(steps=7, batch=16)
        runs = [make.run(seed, method, optim=(optim, {"lr": 0.01, "clip_norm": 1.0}), train=train) for seed in range(3)]
        alone = make.outcomes(runs, "vmap", dtype=torch.float64)
        monkeypatch.setattr(
            execution,
            "one_by_one",
            lambda _move: torch.func.vmap(make_move(make.setup(runs).learner), in_dims=(None, 0, 0, 0)),
        )
        together = make.outcomes(runs, "vmap", dtype=torch.float64)

        assert largest_gap([one.parameters for one in alone], [one.parameters for one in together]) < 1e-9

    @pytest.mark.parametrize("method", [name for name in catalog.STRATEGIES if name != "gdumb"])  # it brings its own optimiser
    def test_an_optimiser_that_returns_new_tensors_is_followed(self, make, method):
        """Plain functional descent, which writes nothing in place, ends where descent in place does."""
        runs = [make.run(seed, method) for seed in range(2)]
        in_place = make.outcomes(runs, "vmap", dtype=torch.float64)
        functional = Optimiser(
            init=lambda params, values: params["head.bias"].new_tensor(values["lr"]),
            update=lambda params, grads, lr: ({name: params[name] - lr * grad for name, grad in grads.items()}, lr * 1),
        )
        setup = make.setup(runs, dtype=torch.float64)
        setup = setup._replace(learner=setup.learner._replace(optimiser=functional))
        pure = train_group(setup, execution.vmap, silent())

        assert largest_gap([one.parameters for one in in_place], [one.parameters for one in pure]) < 1e-9


class TestMates:
    """What the other members of a group change: nothing."""

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_size_and_order_of_the_group_change_nothing(self, make, way):
        """Seed 3 ends at the same parameters among two, or as the last of five, within 1e-9 in float64."""
        few = make.outcomes([make.run(seed, "er") for seed in (3, 9)], way, dtype=torch.float64)[0]
        many = make.outcomes([make.run(seed, "er") for seed in (9, 1, 0, 2, 3)], way, dtype=torch.float64)[4]

        assert max(np.abs(few.parameters[name] - many.parameters[name]).max() for name in few.parameters) < 1e-9

    def test_members_with_settings_of_their_own_equal_runs_with_those_settings(self, make):
        """A sweep of strengths and rates in one ensemble is bitwise the sweep run by run."""
        pairs = ((0.0, 0.01), (1.0, 0.05), (100.0, 0.1))
        runs = [make.run(4, "ewc", settings={"strength": strength}, optim=("sgd", {"lr": lr})) for strength, lr in pairs]
        together = make.outcomes(runs)
        alone = [make.outcomes([run])[0] for run in runs]

        assert all(same_bits(*pair) for pair in zip(together, alone, strict=True))
        assert not np.array_equal(together[0].parameters["head.weight"], together[1].parameters["head.weight"])

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_clipping_one_member_leaves_the_others(self, make, way):
        """A member whose penalty is huge is clipped by its own norm; the others have the numbers of their own runs."""
        settings = {"lr": 0.05, "clip_norm": 0.5}
        strengths = (0.0, 1e6, 1.0)
        runs = [
            make.run(1, "ewc", settings={"strength": strength, "stiffness_cap": "off"}, optim=("sgd", settings))
            for strength in strengths
        ]
        together = make.outcomes(runs, way, dtype=torch.float64)
        alone = [make.outcomes([run], dtype=torch.float64)[0] for run in runs]

        assert max(largest_gap([a.parameters], [b.parameters]) for a, b in zip(together[::2], alone[::2], strict=True)) < 1e-9

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_a_member_that_diverges_leaves_the_others(self, make, way):
        """A member with a rate of 1e30 is marked with task and step; its mates end with the bits they have without it."""
        runs = [make.run(seed, optim=("sgd", {"lr": lr})) for seed, lr in ((0, 0.05), (1, 1e30), (2, 0.05))]
        together = make.outcomes(runs, way)
        tamed = make.outcomes([runs[0], make.run(1), runs[2]], way)

        assert together[1].record.state == "diverged"
        assert together[1].record.diverged["task"] == 0
        assert together[1].record.accuracy == []
        assert same_bits(together[0], tamed[0])
        assert same_bits(together[2], tamed[2])


class TestInitialWeights:
    """How members begin."""

    def test_seeds_differ_and_repeat(self, make):
        """Three seeds begin at three different weights, and again at the same ones."""
        setup = make.setup([make.run(seed) for seed in (0, 1, 2, 0)])
        heads = [member.params["head.weight"] for member in initial_members(setup)]

        assert torch.equal(heads[0], heads[3])
        assert not any(torch.equal(heads[a], heads[b]) for a, b in ((0, 1), (0, 2), (1, 2)))

    def test_a_weight_depends_on_no_other_shape(self, make):
        """Another head leaves the hidden weights as they are: each parameter has a draw of its own."""
        small, large = make.setup([make.run()], make.stream((20, 20))), make.setup([make.run()], make.stream((20,) * 5))
        hidden = [initial_members(setup)[0].params["hidden1.weight"] for setup in (small, large)]

        assert torch.equal(*hidden)

    def test_weights_fill_their_range(self, make):
        """Weights are uniform in [-bound, bound]: mean near 0, extremes near the bound, never beyond."""
        model = make.setup([make.run(model=("mlp", {"hidden": [400]}))]).learner.model
        weight = initial_params(model, 0, device=torch.device("cpu"), dtype=torch.float64)["hidden0.weight"]
        bound = model.table["hidden0.weight"].bound

        assert 0.99 * bound < weight.abs().max() <= bound
        assert abs(weight.mean()) < 4 * bound / (3 * weight.numel()) ** 0.5


def one_step(make, method, way):
    """Return loss and gradients of each of three members in the first step after the first stage."""
    setup = make.setup([make.run(seed, method) for seed in range(3)])
    draws = Draws(range(3), setup.plan, device=setup.device, dtype=setup.dtype)
    first, memory = setup.stages[0], initial_memory(setup)
    members, _ = train_stage(Session(setup, loop(setup.learner), draws, silent()), first, initial_members(setup), memory)
    members = [end_of_task(setup, first, *pair) for pair in zip(setup.runs, members, strict=True)]

    # In place of an optimiser, one whose new parameters are the gradients.
    watched = setup.learner._replace(optimiser=Optimiser(init=dict, update=lambda _params, grads, state: (grads, state)))
    chosen = EXECUTIONS[way](watched)
    stage = setup.stages[-1]
    chunk = draws.chunk(stage, stage.schedule.chunk(0, 1), memory)
    ensemble, losses = chosen.train(chosen.gather(members), setup.lesson(stage), chunk)
    pairs = zip(chosen.scatter(ensemble), losses[0], strict=True)
    return [{"loss": loss.numpy(), **{name: value.numpy() for name, value in one.params.items()}} for one, loss in pairs]


def largest_gap(some, others):
    """Return the largest difference between the parameters of two lists of members."""
    return max(np.abs(a[name] - b[name]).max() for a, b in zip(some, others, strict=True) for name in a)


def largest_relative_gap(some, others):
    """Return the largest difference per parameter, as a fraction of its largest entry."""
    pairs = [(a[name], b[name]) for a, b in zip(some, others, strict=True) for name in a]
    return max(np.abs(a - b).max() / np.abs(a).max() for a, b in pairs)
