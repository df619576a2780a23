"""What only a GPU can show: graphs of its kernels, and what there is no need to wait for."""

import pytest
import torch

from contilab import catalog
from contilab.engine import stage as stage_module
from contilab.engine.choice.form import Form, in_bf16
from contilab.engine.choice.trial import MOST_SECONDS, try_out
from contilab.engine.ensemble import stack
from contilab.engine.environment import TABLE
from contilab.engine.executions import graphed as module
from contilab.engine.executions.batched import batched
from contilab.engine.executions.folding import folding_of
from contilab.engine.executions.graphed import graphed, graphed_by, on_cuda
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.step import empty_bin
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.hardware.device import use_device
from contilab.spec.sections import Train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),  # is a prototype, says torch
]

DEVICE = "cuda:0"
MAY_ASK_THE_HOST = {"gem"}  # whether a matrix can be solved for
MOMENTUM = {"momentum": 0.9}


@pytest.fixture(autouse=True)
def _as_records_say():
    """Compute as training does."""
    use_device(DEVICE)


@pytest.fixture
def unasked():
    """A function that lets whatever waits for the GPU from now on fail."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


class Counted:
    """What captures, and how many graphs there are, and how often one was used after it had come to the same bits."""

    def __init__(self):
        self.graphs, self.uses = 0, 0

    def made(self):
        """Return what captures on the GPU."""
        capture = on_cuda()

        def counting(steps):
            replay, losses = capture(steps)
            self.graphs, self.uses = self.graphs + 1, self.uses - 1

            def launch():
                self.uses += 1
                replay()

            return launch, losses

        return counting


def largest_gap(some, others):
    """Return the largest difference between the parameters of two lists of outcomes."""
    return max(
        abs(a.parameters[name] - b.parameters[name]).max() for a, b in zip(some, others, strict=True) for name in a.parameters
    )


class TestGraphs:
    """Whole runs on a GPU."""

    @pytest.mark.usefixtures("looks")
    @pytest.mark.parametrize("method", catalog.STRATEGIES)
    def test_runs_of_every_method_equal_batched(self, make, method):
        """Two members end within 1e-9 of steps without graphs in float64, and most of their steps go by graphs."""
        optim = ("sgd", {"lr": 0.05, **MOMENTUM})
        runs = [make.run(seed, method, optim=optim, train=Train(steps=12, batch=16)) for seed in (0, 1)]
        setup, counted = make.setup(runs, dtype=torch.float64, device=DEVICE), Counted()
        found = train_group(setup, lambda learner: graphed_by(learner, counted.made), silent())

        assert largest_gap(found, train_group(setup, batched, silent())) < 1e-9
        assert counted.uses >= setup.steps / 2 or method in MAY_ASK_THE_HOST

    @pytest.mark.parametrize("arithmetic", [in_bf16, lambda learner: learner], ids=["bf16", "fp32"])
    @pytest.mark.parametrize(
        "optim",
        [("sgd", {}), ("sgd", MOMENTUM), ("sgd", {**MOMENTUM, "nesterov": True, "weight_decay": 0.01}), ("adam", {})],
        ids=["plain", "momentum", "nesterov", "adam"],
    )
    def test_all_bits_are_those_of_batched(self, make, monkeypatch, optim, arithmetic):
        """In float32, in bf16 too, and in chunks of up to 64 steps."""
        monkeypatch.setattr(stage_module, "CHUNK_SECONDS", 1e9)
        name, settings = optim
        rates = enumerate((0.01, 0.005))
        runs = [
            make.run(seed, "er", optim=(name, {"lr": rate, **settings}), train=Train(epochs=8, batch=4)) for seed, rate in rates
        ]
        setup, counted = make.setup(runs, make.stream((200, 248), test=3), device=DEVICE), Counted()
        found = train_group(setup, lambda learner: graphed_by(arithmetic(learner), counted.made), silent())
        expected = train_group(setup, lambda learner: batched(arithmetic(learner)), silent())

        assert largest_gap(found, expected) == 0
        assert counted.uses >= 30

    def test_the_short_measurement_has_graphs(self, make):
        """Of a long study, in its time; what it takes before that is not counted."""
        setup = make.setup([make.run(seed, train=Train(steps=1_000_000, batch=16)) for seed in range(8)], device=DEVICE)
        found = try_out(setup, [Form("batched"), Form("graphed")], TABLE, MOST_SECONDS)

        assert {rate.execution for rate in found} == {"batched", "graphed"}


@pytest.fixture
def group(make):
    """A learner, its members on the GPU, their lesson, and the draws of a chunk of two steps."""
    setup = make.setup(
        [make.run(seed, optim=("sgd", MOMENTUM), train=Train(epochs=1, batch=4)) for seed in (0, 1)], device=DEVICE
    )
    stage = setup.stages[0]
    chunk = draws_of(setup).chunk(stage, stage.schedule.chunk(0, 2), initial_memory(setup))
    return setup.learner, initial_members(setup), setup.lesson(stage), chunk


def losses_of(execution, group, chunks):
    """Return the losses of a group trained by the same draws again and again."""
    _, members, lesson, chunk = group
    ensemble, losses = execution.gather(members), []
    for _ in range(chunks):
        ensemble, loss = execution.train(ensemble, lesson, chunk)
        losses.append(loss)
    return torch.cat(losses)


def asking(learner):
    """Return the batched execution, which then asks the GPU for a number."""
    inner = batched(learner)

    def train(ensemble, lesson, draws):
        ensemble, losses = inner.train(ensemble, lesson, draws)
        losses.sum().item()
        return ensemble, losses

    return inner._replace(train=train)


class TestCaptureThatFails:
    """Steps that cannot be noted, since they wait for the GPU."""

    def test_training_goes_on(self, group, monkeypatch):
        """By the same bits; memory can be given back afterwards, and other groups have graphs."""
        learner = group[0]
        expected = losses_of(batched(learner), group, 6)
        with monkeypatch.context() as patch:
            patch.setattr(module, "batched", asking)
            execution = graphed(learner)
            found = losses_of(execution, group, 6)
        told = execution.report().fallback
        torch.cuda.empty_cache()
        counted = Counted()
        later = losses_of(graphed_by(learner, counted.made), group, 6)

        assert told
        assert torch.equal(found, expected)
        assert torch.equal(later, expected)
        assert (counted.graphs, counted.uses) == (1, 4)


class TestNothingIsAsked:
    """What the host can tell a GPU without waiting for it."""

    def test_factors_of_updates_stay_there(self, group, unasked):
        """Rates of members are tensors on the GPU; what settings fix is a number."""
        learner, members, lesson, chunk = group
        ensemble = stack(members)
        unasked()
        found = folding_of(learner, ensemble, lesson, chunk)

        assert {target.keep for target in found.targets.values()} == {0.9}
        assert found.rate == 1
        assert all(target.behind.is_cuda for target in found.targets.values())

    def test_a_chunk_is_told_without_waiting(self, group, unasked):
        """Once the first one has made what is made once."""
        learner, members, lesson, chunk = group
        execution = batched(learner)
        ensemble, _ = execution.train(execution.gather(members), lesson, chunk)
        unasked()
        _, losses = execution.train(ensemble, lesson, chunk)
        torch.cuda.set_sync_debug_mode("default")

        assert losses.isfinite().all()

    def test_the_bin_is_emptied(self):
        """Where samples reach it in any order, and nowhere else."""
        stored = torch.ones(2, 4, 3)
        emptied = empty_bin(stored.to(DEVICE)).cpu()

        assert torch.equal(emptied[:, :-1], stored[:, :-1])
        assert not emptied[:, -1].any()
        assert empty_bin(stored).all()
