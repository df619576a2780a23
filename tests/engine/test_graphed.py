"""Chunks as graphs, with something on the processor that notes operations as a GPU notes kernels."""

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from contilab import catalog
from contilab.engine.choice.offer import Asked, offered
from contilab.engine.ensemble import clone
from contilab.engine.environment import TABLE
from contilab.engine.executions import graphed as module
from contilab.engine.executions.batched import batched
from contilab.engine.executions.graphed import graphed, graphed_by
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.errors import UsageError
from contilab.spec.sections import Train

ASKS_THE_HOST = {"gem"}  # on a processor LAPACK's pivots are looked at


class Notes(TorchDispatchMode):
    """Operations with the very tensors that they read and write, to be done again; numbers are those of the first time."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Do and note one; refuse to hand a number to the host, as a GPU does."""
        if function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a number was asked for")
        out = function(*args, **(kwargs or {}))
        self.operations.append((function, args, kwargs or {}, out))
        return out

    def replay(self):
        """Do all of them again, into the same tensors."""
        for function, args, kwargs, out in self.operations:
            pairs = zip(pytree.tree_leaves(out), pytree.tree_leaves(function(*args, **kwargs)), strict=True)
            for old, new in pairs:
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():  # neither a view nor written in place
                    old.copy_(new)


class Camera:
    """Captures by notes, and counts the graphs and how often one was launched."""

    def __init__(self):
        self.graphs, self.launches = 0, 0

    def made(self):
        """Return what captures."""
        return self

    def __call__(self, function):
        """Capture *function*."""
        notes = Notes()
        with notes:
            losses = function()
        self.graphs += 1

        def replay():
            self.launches += 1
            notes.replay()

        return replay, losses


def largest_gap(some, others):
    """Return the largest difference between the parameters of two lists of outcomes."""
    return max(
        abs(a.parameters[name] - b.parameters[name]).max() for a, b in zip(some, others, strict=True) for name in a.parameters
    )


@pytest.mark.usefixtures("looks")
class TestNumbers:
    """Whole runs, in chunks of one step."""

    @pytest.mark.parametrize("method", catalog.STRATEGIES)
    def test_runs_of_every_method_equal_the_loop(self, make, method):
        """Two members end within 1e-9 of the loop in float64, and nearly all steps were launched; none where a step asks."""
        runs = [make.run(seed, method, train=Train(steps=6, batch=16)) for seed in (0, 1)]
        camera, heard = Camera(), []
        watch = silent()._replace(log=lambda event, **values: heard.append((event, values.get("reason", ""))))
        setup = make.setup(runs, dtype=torch.float64)
        found = train_group(setup, lambda learner: graphed_by(learner, camera.made), watch)

        assert largest_gap(found, make.outcomes(runs, dtype=torch.float64)) < 1e-9
        failures = [reason for event, reason in heard if event == "compile_failed"]
        assert bool(failures) == (method in ASKS_THE_HOST)
        assert camera.launches > 0 or method in ASKS_THE_HOST

    @pytest.mark.parametrize("optim", [("sgd", {"lr": 0.05, "momentum": 0.9}), ("sgd", {"lr": 0.05, "weight_decay": 0.01})])
    def test_a_model_without_a_member_axis_goes_by_vmap(self, make, optim):
        """With norms over batches, whose moments move too; the numbers are those of vmap."""
        stream = make.stream((12, 14), test=3, shape=(1, 8, 8))
        model = ("resnet18r", {"norm": "batch"})
        runs = [make.run(seed, model=model, optim=optim, train=Train(steps=4, batch=4)) for seed in (0, 1)]
        camera = Camera()
        setup = make.setup(runs, stream, torch.float64)
        found = train_group(setup, lambda learner: graphed_by(learner, camera.made), silent())

        assert largest_gap(found, make.outcomes(runs, "vmap", stream, torch.float64)) < 1e-12
        assert camera.launches > 0


@pytest.fixture
def group(make):
    """A learner, its members, their lesson, and the draws of a chunk of *count* steps."""
    setup = make.setup([make.run(seed, train=Train(epochs=1, batch=4)) for seed in (0, 1)])
    stage = setup.stages[0]
    draws = draws_of(setup)

    def chunk(count=2):
        return draws.chunk(stage, stage.schedule.chunk(0, count), initial_memory(setup))

    return setup.learner, initial_members(setup), setup.lesson(stage), chunk


def trained(execution, members, lesson, chunks):
    """Train *members* by *chunks*; return the losses of each, and the members."""
    ensemble, losses = execution.gather(members), []
    for chunk in chunks:
        ensemble, loss = execution.train(ensemble, lesson, chunk)
        losses.append(loss)
    return losses, execution.scatter(ensemble)


class TestGraphs:
    """When there is one."""

    def test_the_third_chunk_of_a_kind_is_launched(self, group):
        """The first is trained as usual, the second too and then noted, later ones are launches; also those of later stages."""
        learner, members, lesson, chunk = group
        camera = Camera()
        execution = graphed_by(learner, camera.made)
        ensemble = execution.gather(members)
        seen = []
        for stage in (0, 0, 0, 0, 1, 1, 1, 2, 3):
            own = lesson._replace(stage=stage, masks=lesson.masks.clone())
            ensemble, _ = execution.train(ensemble, own, chunk())
            ensemble = execution.gather(execution.scatter(ensemble))
            seen.append((camera.graphs, camera.launches))

        assert seen == [(0, 0), (1, 1), (1, 2), (1, 3), (1, 3), (2, 4), (2, 5), (2, 6), (2, 7)]

    def test_losses_and_members_are_those_of_the_same_steps(self, group):
        """Chunk by chunk, also for draws that the graph was not made with and masks that change."""
        learner, members, lesson, chunk = group
        chunks = [chunk() for _ in range(2)]
        chunks += [one._replace(current=one.current.flip(0)) for one in chunks]
        losses, ended = trained(graphed_by(learner, Camera), members, lesson, chunks)
        expected, others = trained(batched(learner), members, lesson, chunks)

        assert all(torch.allclose(*pair, rtol=1e-6) for pair in zip(losses, expected, strict=True))
        for a, b in zip(ended, others, strict=True):
            assert all(torch.allclose(a.params[name], b.params[name], atol=1e-7) for name in a.params)

    def test_members_handed_out_stand_still(self, group):
        """What was scattered, and what was returned as losses, is not written into by later chunks."""
        learner, members, lesson, chunk = group
        execution = graphed_by(learner, Camera)
        ensemble = execution.gather(members)
        kept = []
        for _ in range(4):
            ensemble, losses = execution.train(ensemble, lesson, chunk())
            params = execution.scatter(ensemble)[0].params
            kept.append((losses, losses.clone(), params, clone(params)))
            execution.gather(execution.scatter(ensemble))

        for losses, copy, params, copies in kept:
            assert torch.equal(losses, copy)
            assert all(torch.equal(params[name], copies[name]) for name in params)

    def test_chunks_are_trained_in_pieces(self, group):
        """Of 4, 2 and 1 steps if there are 7, so that chunks of other lengths find graphs too; losses keep their order."""
        learner, members, lesson, chunk = group
        camera, seven, three = Camera(), chunk(7), chunk(3)
        losses, _ = trained(graphed_by(learner, camera.made), members, lesson, [seven, seven, three])
        expected, _ = trained(batched(learner), members, lesson, [seven, seven, three])

        assert (camera.graphs, camera.launches) == (3, 3 + 2)
        assert all(torch.allclose(*pair, rtol=1e-5) for pair in zip(losses, expected, strict=True))

    def test_the_oldest_kinds_are_forgotten(self, group, monkeypatch):
        """There are so many and no more; a kind that comes again after others is noted anew."""
        monkeypatch.setattr(module, "MOST_KINDS", 2)
        learner, members, lesson, chunk = group
        camera, first = Camera(), chunk(1)
        kinds = [first._replace(current=first.current[..., :width]) for width in (1, 2, 3, 1)]
        trained(graphed_by(learner, camera.made), members, lesson, [one for one in kinds for _ in range(3)])

        assert (camera.graphs, camera.launches) == (4, 8)


class TestGivingUp:
    """What cannot be noted, or comes out otherwise."""

    def refusing(self, function):
        """Capture as a GPU does where a step waits for it."""
        raise RuntimeError("operation not permitted when stream is capturing\nwith advice")

    def idle(self, function):
        """Capture nothing at all."""
        return (lambda: None), function()

    def moving(self, function):
        """Capture a launch that moves members by something else."""
        losses = function()
        return (lambda: losses.mul_(2)), losses

    @pytest.mark.parametrize(
        ("capture", "reason"), [("refusing", "not permitted"), ("idle", "other numbers"), ("moving", "other numbers")]
    )
    def test_training_goes_on_as_usual(self, group, capture, reason):
        """The numbers are those of steps without graphs, and the reason is reported once, in one line."""
        learner, members, lesson, chunk = group
        chunks = [chunk() for _ in range(4)]
        execution = graphed_by(learner, lambda: getattr(self, capture))
        losses, ended = trained(execution, members, lesson, chunks)
        expected, others = trained(batched(learner), members, lesson, chunks)

        assert all(map(torch.equal, losses, expected))
        for a, b in zip(ended, others, strict=True):
            assert all(torch.equal(a.params[name], b.params[name]) for name in a.params)
        told = execution.report().fallback
        assert reason in told
        assert "\n" not in told
        assert execution.report().fallback == ""

    @pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
    def test_memory_for_graphs_is_not_asked_of_others(self, group, error):
        """Where it is short training goes on without graphs, and no group is split."""
        learner, members, lesson, chunk = group

        def full(_steps):
            raise error

        execution = graphed_by(learner, lambda: full)
        losses, _ = trained(execution, members, lesson, [chunk(), chunk(), chunk()])

        assert type(error).__name__ in execution.report().fallback
        assert all(map(torch.equal, losses, trained(batched(learner), members, lesson, [chunk(), chunk(), chunk()])[0]))

    def test_members_are_compared_one_by_one(self):
        """One with large numbers does not hide another, and one that diverged may hold anything."""
        expected = torch.tensor([[1e20, 1.0], [1.0, 2.0], [float("inf"), 1.0]])
        module._compare([expected + torch.tensor([[1e16, 0], [1e-4, 0], [0, 9]])], [expected])
        module._compare([torch.full((3, 2), float("nan")).where(expected.isinf().any(1, keepdim=True), expected)], [expected])

        for wrong in ([0, 0.1], [0, float("nan")]):
            with pytest.raises(RuntimeError, match="other numbers"):
                module._compare([expected + torch.tensor([[0, 0], wrong, [0, 0]])], [expected])


class TestOffer:
    """Where it is offered."""

    def test_only_a_gpu_has_graphs(self, make):
        """On a processor `auto` does not look at it, whoever asks for it gets another one with a warning."""
        learner = make.setup([make.run()]).learner
        asked = offered(Asked("graphed", "fp32", "off"), learner, "cpu", TABLE, method="naive", members=2)
        found = offered(Asked("auto", "fp32", "off"), learner, "cpu", TABLE, method="naive", members=2)

        assert "graphed" not in {form.execution for form in (*asked.forms, *found.forms)}
        assert asked.warnings[0] == "graphed: it needs a GPU"
        assert not found.warnings
        assert TABLE.offered_on("cuda:1") == (*TABLE.offered_on("cpu"), "graphed")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_without_a_gpu_it_refuses(self, make):
        """In one sentence."""
        with pytest.raises(UsageError, match="graphed needs a GPU"):
            graphed(make.setup([make.run()]).learner)
