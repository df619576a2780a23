"""A member of an ensemble is the same seed alone: the keystone of the engine."""

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine.choice.pace import Pace
from contilab.engine.closing import end_of_task
from contilab.engine.ensemble import initial_params, stack
from contilab.engine.environment import EXECUTIONS
from contilab.engine.executions import blocks, moving
from contilab.engine.executions import folding as folding_module
from contilab.engine.executions import head as head_module
from contilab.engine.executions import vmap as execution
from contilab.engine.executions.batched import batched
from contilab.engine.executions.folding import folding_of
from contilab.engine.executions.loop import loop
from contilab.engine.executions.recorded import recorded
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.stage import Session, train_stage
from contilab.engine.step import make_move
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.errors import UsageError
from contilab.optim.contract import Optimiser
from contilab.spec.sections import Train

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
IMAGE_MODELS = [name for name in catalog.MODELS if name != "mlp"]
SLOW = {"resnet18": pytest.mark.slow}  # 11 million parameters take 20 s on one core

every_model = pytest.mark.parametrize("model", [pytest.param(name, marks=SLOW.get(name, ())) for name in IMAGE_MODELS])
every_optimiser = pytest.mark.parametrize("optim", catalog.OPTIMISERS)
every_way = pytest.mark.parametrize("way", EXECUTIONS)
every_other_way = pytest.mark.parametrize("way", [name for name in EXECUTIONS if name != "loop"])


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


class TestOtherExecutions:
    """Every execution but the loop, by the equality rule."""

    @every_other_way
    @every_method
    def test_loss_and_gradients_of_one_step_equal_the_loop(self, make, once, method, way):
        """In float32, with the state of a task behind, they agree within 1e-5 of their largest entry."""
        looped = once(("step", method), lambda: one_step(make, method, "loop"))

        assert largest_relative_gap(looped, one_step(make, method, way)) < 1e-5

    @every_other_way
    @every_method
    @every_optimiser
    def test_twenty_steps_in_float64_equal_the_loop(self, make, looped, method, optim, way):
        """Parameters after 21 float64 steps over three tasks agree within 1e-9."""
        other = make.outcomes(short_runs(make, method, optim), way, dtype=torch.float64)

        assert largest_gap(looped(method, optim), [one.parameters for one in other]) < 1e-9

    @every_other_way
    @every_model
    def test_twenty_steps_of_every_model_equal_the_loop(self, make, once, model, way):
        """So they do for each model of images, trained by naive steps."""
        stream = make.stream((16,) * 2, test=3, shape=(1, 8, 8))
        runs = [make.run(seed, model=(model, {}), train=Train(steps=10, batch=8)) for seed in range(2)]
        looped = once(("steps", model), lambda: make.outcomes(runs, "loop", stream=stream, dtype=torch.float64))
        other = make.outcomes(runs, way, stream=stream, dtype=torch.float64)

        assert largest_gap([one.parameters for one in looped], [one.parameters for one in other]) < 1e-9

    @every_other_way
    @every_model
    def test_one_step_of_every_model_equals_the_loop(self, make, once, model, way):
        """Their losses and gradients in float32 agree within 1e-5 of their largest entry."""
        setting = {"model": (model, {}), "stream": make.stream((16,) * 2, test=3, shape=(1, 8, 8))}
        looped = once(("step", model), lambda: one_step(make, "naive", "loop", **setting))

        assert largest_relative_gap(looped, one_step(make, "naive", way, **setting)) < 1e-5


class TestBatched:
    """Updates that fold into the products of the gradients."""

    @pytest.mark.slow
    @pytest.mark.parametrize("decay", [0.0, 0.01])
    @pytest.mark.parametrize("momentum", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}])
    @pytest.mark.parametrize("rates", [(0.05, 0.05), (0.05, 0.02)])
    @pytest.mark.parametrize("method", ["naive", "derpp"])
    def test_every_form_of_descent_folds(self, make, method, rates, momentum, decay):
        """With momentum, Nesterov's too, and decay, members of one setting or of several end where those of the loop end."""
        optims = [("sgd", {"lr": rate, **momentum, "weight_decay": decay * rate / rates[0]}) for rate in rates]
        runs = [make.run(seed, method, optim=optim, train=Train(steps=7, batch=16)) for seed, optim in enumerate(optims)]
        looped, folded = (make.outcomes(runs, way, dtype=torch.float64) for way in ("loop", "batched"))

        assert largest_gap([one.parameters for one in looped], [one.parameters for one in folded]) < 1e-9

    @pytest.mark.parametrize(
        ("method", "settings", "folds"),
        [("naive", {}, True), ("er", {"momentum": 0.9}, True), ("ewc", {}, False), ("naive", {"clip_norm": 1.0}, False)],
    )
    def test_folds_unless_gradients_are_looked_at(self, make, method, settings, folds):
        """In the second stage a penalty needs gradients, and so does clipping; without them no gradient of a weight is made."""
        setup = make.setup([make.run(seed, method, optim=("sgd", {"lr": 0.1, **settings})) for seed in range(2)])
        draws = draws_of(setup)
        chunk = draws.chunk(setup.stages[1], setup.stages[1].schedule.chunk(0, 1), initial_memory(setup))
        found = folding_of(setup.learner, stack(initial_members(setup)), setup.lesson(setup.stages[1]), chunk)

        assert (found is not None) == folds

    @pytest.mark.parametrize("nesterov", [False, True])
    def test_what_settings_fix_is_a_number(self, make, monkeypatch, nesterov):
        """Where rates stay tensors, as on a GPU, momentum still is part of the product, and no velocity is written before."""
        monkeypatch.setattr(folding_module, "_number", lambda values: values)
        setup = make.setup([make.run(seed, optim=("sgd", {"momentum": 0.9, "nesterov": nesterov})) for seed in range(2)])
        stage, draws = setup.stages[0], draws_of(setup)
        chunk = draws.chunk(stage, stage.schedule.chunk(0, 1), initial_memory(setup))
        found = folding_of(setup.learner, stack(initial_members(setup)), setup.lesson(stage), chunk)
        gradient = torch.ones(2, 3, 4)

        assert [target.prepare() for target in found.targets.values()] == [0.9] * len(found.targets)
        assert all(target.into._version == 0 for target in found.targets.values())
        assert found.scaled(gradient) is gradient

    def test_one_member_has_one_recording(self, make, monkeypatch):
        """Its loss is recorded once for chunks of any length, though its draws lie in memory as these do."""
        seen = []
        monkeypatch.setattr(head_module, "recorded", lambda *arguments: seen.append(arguments) or recorded(*arguments))
        setup = make.setup([make.run(0, train=Train(epochs=1, batch=2))])
        stage, draws, execution = setup.stages[0], draws_of(setup), batched(setup.learner)
        ensemble = execution.gather(initial_members(setup))
        for count in (7, 6, 5):
            chunk = draws.chunk(stage, stage.schedule.chunk(0, count), initial_memory(setup))
            execution.train(ensemble, setup.lesson(stage), chunk)

        assert len(seen) == 1

    def test_members_in_blocks_equal_members_in_one(self, make, monkeypatch):
        """Five members in three blocks end where they end in one, in their order."""
        runs = [make.run(seed, "er") for seed in range(5)]
        whole = make.outcomes(runs, "batched", dtype=torch.float64)
        size = sum(value.nbytes for value in whole[0].parameters.values())
        monkeypatch.setattr(blocks, "THREAD_BYTES", 2 * size)
        parted = make.outcomes(runs, "batched", dtype=torch.float64)

        assert [len(one.stored) for one in blocks.in_blocks(initial_members(make.setup(runs, dtype=torch.float64)))] == [
            1,
            2,
            2,
        ]
        assert largest_gap([one.parameters for one in whole], [one.parameters for one in parted]) < 1e-9

    def test_a_model_that_takes_no_members_is_refused(self, make):
        """The execution says so when it is built, so that another one trains."""
        learner = make.setup([make.run()]).learner
        with pytest.raises(UsageError, match="stacked members"):
            batched(learner._replace(model=learner.model._replace(takes_members=False)))


class TestVmap:
    """All members in one call."""

    @pytest.mark.slow
    @every_method
    @every_optimiser
    def test_moving_members_together_equals_moving_them_alone(self, make, method, optim, monkeypatch):
        """The form for a GPU, the second half of the step vmapped as well, agrees within 1e-9 too.

        With Adam what a CPU does is one update of all members, where nothing but the update looks at the gradients.
        """
        train = Train(steps=7, batch=16)
        clip_norm = {"sgd": 1.0}.get(optim, "off")
        runs = [make.run(seed, method, optim=(optim, {"lr": 0.01, "clip_norm": clip_norm}), train=train) for seed in range(3)]
        alone = make.outcomes(runs, "vmap", dtype=torch.float64)
        vmapped = torch.func.vmap(make_move(make.setup(runs).learner), in_dims=(None, 0, 0, 0))
        monkeypatch.setattr(moving, "one_by_one", lambda _move: vmapped)
        monkeypatch.setattr(moving, "_is_plain", lambda *_: False)
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

    @every_way
    def test_size_and_order_of_the_group_change_nothing(self, make, way):
        """Seed 3 ends at the same parameters among two, or as the last of five, within 1e-9 in float64."""
        few = make.outcomes([make.run(seed, "er") for seed in (3, 9)], way, dtype=torch.float64)[0]
        many = make.outcomes([make.run(seed, "er") for seed in (9, 1, 0, 2, 3)], way, dtype=torch.float64)[4]

        assert max(np.abs(few.parameters[name] - many.parameters[name]).max() for name in few.parameters) < 1e-9

    @every_optimiser
    def test_members_with_settings_of_their_own_equal_runs_with_those_settings(self, make, optim):
        """A sweep of strengths, rates and decays in one ensemble is bitwise the sweep run by run."""
        values = ((0.0, 0.01, 0.01), (1.0, 0.05, 1.0), (100.0, 0.1, 0.1))
        runs = [
            make.run(4, "ewc", settings={"strength": strength}, optim=(optim, {"lr": lr, "weight_decay": decay}))
            for strength, lr, decay in values
        ]
        together = make.outcomes(runs)
        alone = [make.outcomes([run])[0] for run in runs]

        assert all(same_bits(*pair) for pair in zip(together, alone, strict=True))
        assert not np.array_equal(together[0].parameters["head.weight"], together[1].parameters["head.weight"])

    @pytest.mark.parametrize("other", [{"method": "er"}, {"optim": ("sgd", {"lr": 0.05, "weight_decay": 0.1})}])
    def test_runs_that_differ_in_anything_else_are_no_group(self, make, other):
        """A method, or a decay beside none: neither would be trained as it says."""
        with pytest.raises(ValueError, match="not taken per member"):
            make.setup([make.run(0), make.run(1, **other)])

    @every_other_way
    @every_optimiser
    def test_weight_decay_alone_may_differ(self, make, optim, way):
        """Members of one rate and several decays end where those of the loop end, within 1e-9 in float64."""
        runs = [make.run(seed, optim=(optim, {"lr": 0.05, "weight_decay": decay})) for seed, decay in enumerate((0.01, 0.1))]
        looped, other = (make.outcomes(runs, one, dtype=torch.float64) for one in ("loop", way))

        assert largest_gap([one.parameters for one in looped], [one.parameters for one in other]) < 1e-9

    @every_way
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

    @every_way
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


def short_runs(make, method, optim):
    """Return three runs of 21 steps over three tasks."""
    return [make.run(seed, method, optim=(optim, {"lr": 0.01}), train=Train(steps=7, batch=16)) for seed in range(3)]


@pytest.fixture
def looped(make, once):
    """Return the function that gives the parameters at which the loop leaves the short runs of a method and an optimiser."""

    def parameters(method, optim):
        runs = short_runs(make, method, optim)
        return [one.parameters for one in once((method, optim), lambda: make.outcomes(runs, "loop", dtype=torch.float64))]

    return parameters


def one_step(make, method, way, stream=None, **sections):
    """Return loss and gradients of each of three members in the first step after the first stage."""
    setup = make.setup([make.run(seed, method, **sections) for seed in range(3)], stream)
    draws = draws_of(setup)
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


class TestRecordings:
    """Losses that are written down as plain operations."""

    @pytest.mark.parametrize("method", ["naive", "er", "derpp", "agem"])
    def test_one_for_chunks_of_any_length(self, make, method, monkeypatch):
        """A loss is recorded once per kind of batch, however many steps a chunk has: compiling it again would take seconds."""
        recordings = []

        def counted(*arguments):
            recordings.append(arguments)
            return recorded(*arguments)

        monkeypatch.setattr("contilab.engine.executions.head.recorded", counted)
        setup = make.setup([make.run(seed, method, train=Train(steps=40, batch=8)) for seed in range(2)])
        pace = Pace(setup, EXECUTIONS["batched"])
        pace.lap(7)
        first = len(recordings)
        for steps in (5, 1, 3):
            pace.lap(steps)

        assert first == len(recordings) == 1
