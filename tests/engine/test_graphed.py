"""Chunks as graphs, with something on the processor that notes operations as a GPU notes kernels."""

import weakref

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from contilab import catalog
from contilab.engine import stage as stage_module
from contilab.engine.choice import trial as trial_module
from contilab.engine.choice.form import Form, Table
from contilab.engine.choice.offer import Asked, offered
from contilab.engine.choice.trial import try_out
from contilab.engine.ensemble import clone
from contilab.engine.environment import EXECUTIONS, TABLE
from contilab.engine.executions import folding
from contilab.engine.executions import graphed as module
from contilab.engine.executions.batched import batched
from contilab.engine.executions.graphed import graphed_by
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.spec.sections import Train

ASKS_THE_HOST = {"gem"}  # on a processor LAPACK's pivots are looked at


@pytest.fixture(autouse=True)
def _numbers_stay_on_the_device(monkeypatch):
    """Factors of updates stay tensors as on a GPU: to hand them out as numbers is no operation, and would not be noted."""
    monkeypatch.setattr(folding, "_number", lambda values: values)


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
    """Captures by notes; knows of how many steps each graph is, and how often one was launched."""

    def __init__(self):
        self.lengths, self.launches = [], 0

    @property
    def graphs(self):
        """How many there are."""
        return len(self.lengths)

    @property
    def uses(self):
        """How often one was launched besides the first time, which is to see whether it comes to the same."""
        return self.launches - self.graphs

    def made(self):
        """Return what captures."""
        return self

    def __call__(self, function):
        """Capture *function*."""
        notes = Notes()
        with notes:
            losses = function()
        self.lengths.append(len(losses))

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
    """Whole runs, in chunks of one step but for one."""

    @pytest.mark.parametrize("method", catalog.STRATEGIES)
    def test_runs_of_every_method_equal_the_loop(self, make, method):
        """Two members end within 1e-9 of the loop in float64, and most steps go by graphs; none where a step asks the host."""
        runs = [make.run(seed, method, train=Train(steps=12, batch=16)) for seed in (0, 1)]
        camera, heard = Camera(), []
        watch = silent()._replace(log=lambda event, **values: heard.append((event, values.get("reason", ""))))
        setup = make.setup(runs, dtype=torch.float64)
        found = train_group(setup, lambda learner: graphed_by(learner, camera.made), watch)

        assert largest_gap(found, make.outcomes(runs, dtype=torch.float64)) < 1e-9
        failures = [reason for event, reason in heard if event == "compile_failed"]
        assert bool(failures) == (method in ASKS_THE_HOST)
        assert camera.uses >= setup.steps / 2 or method in ASKS_THE_HOST

    @pytest.mark.parametrize("optim", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}])
    def test_runs_in_longer_chunks_equal_batched(self, make, monkeypatch, optim):
        """In chunks of up to 64 steps, whose pieces have 32 to one: all bits are those of the same steps without graphs."""
        monkeypatch.setattr(stage_module, "CHUNK_SECONDS", 1e9)
        rates = enumerate((0.05, 0.02))
        runs = [make.run(seed, optim=("sgd", {"lr": rate, **optim}), train=Train(epochs=8, batch=4)) for seed, rate in rates]
        stream, camera = make.stream((200, 248), test=3), Camera()
        setup = make.setup(runs, stream)
        found = train_group(setup, lambda learner: graphed_by(learner, camera.made), silent())
        expected = train_group(setup, batched, silent())

        assert largest_gap(found, expected) == 0
        assert set(camera.lengths) == {1, 2, 4, 8, 16, 32}
        assert camera.uses >= 30

    @pytest.mark.parametrize("optim", [("sgd", {"lr": 0.05, "momentum": 0.9}), ("sgd", {"lr": 0.05, "weight_decay": 0.01})])
    def test_a_model_without_a_member_axis_goes_by_vmap(self, make, optim):
        """With norms over batches, whose moments move too; the numbers are those of vmap."""
        stream = make.stream((12, 14), test=3, shape=(1, 8, 8))
        model = ("resnet18r", {"norm": "batch"})
        runs = [make.run(seed, model=model, optim=optim, train=Train(steps=12, batch=4)) for seed in (0, 1)]
        camera = Camera()
        setup = make.setup(runs, stream, torch.float64)
        found = train_group(setup, lambda learner: graphed_by(learner, camera.made), silent())

        assert largest_gap(found, make.outcomes(runs, "vmap", stream, torch.float64)) < 1e-12
        assert camera.uses >= setup.steps / 2


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

        assert all(map(torch.equal, losses, expected))
        for a, b in zip(ended, others, strict=True):
            assert all(torch.equal(a.params[name], b.params[name]) for name in a.params)

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

        assert (camera.lengths, camera.launches) == ([4, 2, 1], 3 + 2)
        assert all(map(torch.equal, losses, expected))

    def test_the_pieces_of_one_member_are_of_the_same_kinds(self, make):
        """Of chunks of any length, though its draws lie in memory as these do."""
        setup = make.setup([make.run(train=Train(epochs=1, batch=2))])
        stage, draws, camera = setup.stages[0], draws_of(setup), Camera()
        chunks = [draws.chunk(stage, stage.schedule.chunk(0, count), initial_memory(setup)) for count in (7, 6, 5, 4)]
        trained(graphed_by(setup.learner, camera.made), initial_members(setup), setup.lesson(stage), chunks)

        assert (camera.lengths, camera.launches) == ([4, 2, 1], 3 + 2)

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

    def test_nothing_is_held_any_more(self, group):
        """Members are handed over and back as without graphs: in no second copy, of which one would stay alive."""
        learner, members, lesson, chunk = group
        execution = graphed_by(learner, lambda: self.refusing)
        ensemble = execution.gather(members)
        for _ in range(2):
            ensemble, _ = execution.train(ensemble, lesson, chunk())
        name, weights = next(iter(ensemble[0].params.items()))
        held, handed_out = weakref.ref(weights), execution.scatter(ensemble)

        assert handed_out[1].params[name].data_ptr() == weights[1].data_ptr()
        del ensemble, handed_out, weights
        assert held() is None

    @pytest.mark.parametrize("values", [[1.0, float("nan"), float("inf")], [3, 2**60 + 1], [True, False]])
    def test_only_equal_bits_are_the_same(self, values):
        """What is no number equals itself; whatever differs by the last bit is refused."""
        expected = torch.tensor(values)
        module._compare([expected.clone()], [expected])

        wrong = expected.clone()
        wrong[-1] = torch.nextafter(expected[0], expected[1]) if expected.is_floating_point() else wrong[-1] ^ 1
        with pytest.raises(RuntimeError, match="other numbers"):
            module._compare([wrong], [expected])

    def test_zeros_of_either_sign_are_not_the_same(self):
        """They are equal and have other bits, which hashes of results see."""
        with pytest.raises(RuntimeError, match="other numbers"):
            module._compare([torch.tensor(0.0)], [torch.tensor(-0.0)])

    def test_what_is_no_number_has_bits_too(self):
        """Two of them that differ in a bit are refused."""
        one, other = (torch.tensor([bits], dtype=torch.int32).view(torch.float32) for bits in (0x7FC00000, 0x7FC00001))
        with pytest.raises(RuntimeError, match="other numbers"):
            module._compare([one], [other])

    def test_numbers_with_gaps_between_them_are_compared(self):
        """Also a single one, whatever its stride."""
        values = torch.arange(24.0)[::3]
        for own in (values, values[:1], values[0]):
            module._compare([own], [own.clone()])


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

    @pytest.mark.parametrize(("version", "refuses"), [("2.9.1", True), ("2.13.0a0+git1", True), ("2.13.0+cu130", False)])
    def test_an_old_torch_has_none(self, make, monkeypatch, version, refuses):
        """It would not give memory back after a capture that failed; who asks for graphs is told which torch has them."""
        learner = make.setup([make.run()]).learner
        monkeypatch.setattr(torch, "__version__", version)
        found = TABLE.refusal(Form("graphed"), learner, "cuda:0")

        assert found.endswith(f"graphed needs torch 2.13 or newer, and this is {version}") == refuses
        assert bool(found) == refuses


@pytest.fixture
def study(make):
    """A function that returns the setup of a study of many steps, in epochs of so many batches."""

    def made(together, steps=1_000_000):
        stream = make.stream((4 * together,) * 2, validation=1, test=3)
        return make.setup([make.run(seed, train=Train(steps=steps, batch=4)) for seed in (0, 1)], stream)

    return made


def tried_out(setup, make, seconds=200.0, late=lambda _form: None):
    """Return the executions that got a speed, of the loop and that of *make*, which makes graphs."""
    table = Table({"loop": EXECUTIONS["loop"], "graphed": make}, {}, frozenset({"graphed"}))
    return {rate.execution for rate in try_out(setup, [Form("loop"), Form("graphed")], table, seconds, late)}


class TestTrial:
    """How `auto` measures it."""

    @pytest.mark.parametrize(("together", "most"), [(150, 64), (19, 8), (1, 1)])
    def test_graphs_of_all_lengths_come_before_the_measurement(self, study, monkeypatch, together, most):
        """In epochs that are long or short; none is made while it is measured."""
        camera, seen = Camera(), []
        has_graphs = trial_module._has_graphs

        def noting(*arguments):
            seen.append((has_graphs(*arguments), sorted(set(camera.lengths)), camera.graphs))
            return seen[-1][0]

        monkeypatch.setattr(trial_module, "_has_graphs", noting)
        found = tried_out(study(together), lambda learner: graphed_by(learner, camera.made))

        assert found == {"loop", "graphed"}
        lengths = [2**power for power in range(most.bit_length())]
        assert seen == [(True, lengths, camera.graphs)]

    def test_graphs_are_made_within_the_time(self, study):
        """Where they take longer than their share, because there is little time or training is short, none is measured."""
        camera = Camera()

        def make(learner):
            return graphed_by(learner, camera.made)

        assert tried_out(study(150), make, seconds=0.0) == {"loop"}
        assert tried_out(study(150, steps=50), make) == {"loop"}
        assert set(camera.lengths) <= {1}

    @pytest.mark.parametrize(("most", "told"), [(60.0, [Form("graphed")]), (0.0, [])])
    def test_it_is_told_whether_longer_training_would_have_had_time(self, study, monkeypatch, most, told):
        """So that a short study does not decide for long ones; where no study has more time, it may."""
        monkeypatch.setattr(trial_module, "MOST_SECONDS", most)
        late = []
        found = tried_out(study(150), lambda learner: graphed_by(learner, Camera().made), 0.0, late.append)

        assert found == {"loop"}
        assert late == told

    def test_what_makes_none_is_not_measured(self, study):
        """Once it has given graphs up it is another form."""

        def refusing(_steps):
            raise RuntimeError("not permitted")

        late = []
        assert tried_out(study(19), lambda learner: graphed_by(learner, lambda: refusing), late=late.append) == {"loop"}
        assert not late
