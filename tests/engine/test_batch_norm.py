"""Members whose norms take means over batches: what they collect is their own, moves in training only, and serves in exams."""

import numpy as np
import pytest
import torch

from contilab.engine.choice.form import in_bf16
from contilab.engine.choice.offer import Asked, offered
from contilab.engine.closing import end_of_task, examine
from contilab.engine.environment import TABLE
from contilab.engine.evaluate import not_at_all
from contilab.engine.executions.batched import batched
from contilab.engine.executions.loop import loop
from contilab.engine.importance import Samples, importance
from contilab.engine.setup import draws_of, initial_members, initial_memory, params_count, resting
from contilab.engine.stage import Session, train_stage
from contilab.engine.watch import silent
from contilab.errors import UsageError
from contilab.models import resnet18r
from contilab.spec.sections import Eval, Memory, Train

MODEL = ("resnet18r", {"norm": "batch"})
AUTO = Asked("auto", "fp32", "off")
METHODS = [
    *("er", "derpp", "agem", "ewc", "lwf"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("naive", "gem", "si", "icarl", "gdumb", "joint")),
]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    """Four channels instead of twenty: the same network, much faster."""
    monkeypatch.setattr(resnet18r, "CHANNELS", 4)


@pytest.fixture
def stream(make):
    """Return two tasks of small pictures, whose last norms see 2 x 2 places: with fewer, each step amplifies rounding."""
    return make.stream((19, 13), test=5, shape=(1, 16, 16))


def run_of(make, seed=0, method="naive", **sections):
    """Return a run of the network with BatchNorm."""
    return make.run(seed, method, **{"model": MODEL, "train": Train(epochs=1, batch=4), **sections})


def trained(setup):
    """Return the first member after the steps of the first stage, and the stage."""
    members, memory = initial_members(setup), initial_memory(setup)
    stage = setup.stages[0]
    members, _ = train_stage(Session(setup, loop(setup.learner), draws_of(setup), silent()), stage, members, memory)
    return members[0], stage


class TestTraining:
    """Executions and groups."""

    @pytest.mark.slow
    @pytest.mark.parametrize("method", METHODS)
    def test_vmap_equals_the_loop(self, make, stream, method):
        """Parameters and buffers after whole runs in float64 agree within 1e-9, replay, teachers and references included."""
        settings = {"settings": {"passes": 1}} if method == "gdumb" else {}
        if method in ("naive", "ewc"):  # whose members Adam would take in one call, but for their buffers
            settings["optim"] = ("adam", {"lr": 0.01})
        runs = [run_of(make, seed, method, **settings) for seed in range(2)]
        pairs = zip(*(make.outcomes(runs, way, stream, torch.float64) for way in ("loop", "vmap")), strict=True)

        for looped, mapped in pairs:
            assert looped.parameters.keys() == mapped.parameters.keys()
            assert max(np.abs(looped.parameters[name] - mapped.parameters[name]).max() for name in looped.parameters) < 1e-9

    def test_a_member_is_the_seed_alone(self, make, stream):
        """In the loop, bit by bit, buffers included."""
        runs = [run_of(make, seed, "er") for seed in (3, 8)]
        _, together = make.outcomes(runs, stream=stream)
        (alone,) = make.outcomes(runs[1:], stream=stream)

        assert all(np.array_equal(together.parameters[name], value) for name, value in alone.parameters.items())

    def test_batched_refuses(self, make, stream):
        """Stacked in one batch, norms would have to know which samples are whose; the sentence names the ways there are."""
        setup = make.setup([run_of(make)], stream)

        with pytest.raises(UsageError, match="stacked members"):
            batched(setup.learner)

    @pytest.mark.parametrize("asked", [AUTO, Asked("batched", "fp32", "off"), Asked("batched", "bf16", "on")])
    def test_the_refusal_is_recorded(self, make, stream, asked):
        """Left to itself a group never gets it; asked for it, with or without compiling, one that can trains, and says why."""
        runs = [run_of(make, seed) for seed in range(2)]
        offer = offered(asked, make.setup(runs, stream).learner, "cpu", TABLE, method="naive", members=2)
        reason, is_asked_for = offer.reason("execution", offer.rule), asked != AUTO

        assert {form.execution for form in offer.forms} == {"loop", "vmap"}
        assert ("batched cannot train this: batched: UsageError: engine.execution: batched needs" in reason) == is_asked_for
        assert any("batched needs a model that takes stacked members" in warning for warning in offer.warnings) == is_asked_for

    def test_bf16(self, make, stream):
        """With products in bf16 the moments are still those of numbers in float32."""
        setup = make.setup([run_of(make)], stream)
        low = in_bf16(setup.learner).model
        (member,) = initial_members(setup)
        found = low.forward(member.params, {}, stream.train_inputs[:8])

        assert {value.dtype for value in (*found.moments.values(), found.logits)} == {torch.float32}

    def test_padding_trains_nothing(self, make, stream):
        """While memory has nothing to give, its batches are padding: in the first task replay is then naive training."""
        memory = Memory(total=20, batch=8, insert="task_end")
        ends = []
        for method, own in (("naive", {}), ("er", {"memory": memory})):
            member, _ = trained(make.setup([run_of(make, method=method, **own)], stream, torch.float64))
            ends.append((member.params, member.buffers))

        torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-9)


class TestBuffers:
    """What is collected, and when."""

    def test_training_moves_them(self, make, stream):
        """After a task no buffer is what it was."""
        setup = make.setup([run_of(make)], stream)
        first, (member, _) = initial_members(setup)[0], trained(setup)

        assert set(first.buffers) == set(setup.learner.model.buffers)
        assert not any(torch.equal(first.buffers[name], value) for name, value in member.buffers.items())

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_exams_change_nothing(self, make, stream, way):
        """A run that is measured after many steps and tasks ends in the bits of one that is not, buffers included."""
        plain, watched = (
            make.outcomes([run_of(make, eval=Eval(tier=tier))], way, stream)[0].parameters for tier in ("core", "full")
        )

        assert all(np.array_equal(plain[name], watched[name]) for name in plain)

    def test_exams_go_by_them(self, make, stream):
        """What a member answers in an exam follows from its buffers, and not from who else is examined."""
        setup = make.setup([run_of(make)], stream)
        member, stage = trained(setup)
        entries = initial_memory(setup).entries()[0]
        zero = member._replace(buffers={name: torch.zeros_like(value) + 5 for name, value in member.buffers.items()})
        marks, others = (examine(setup, stage, one, entries, not_at_all)[0] for one in (member, zero))
        alone = resting(setup, member).learner.model.forward(member.params, {}, stream.test_inputs[:1]).logits
        together = resting(setup, member).learner.model.forward(member.params, {}, stream.test_inputs).logits

        assert not torch.equal(marks.confidence, others.confidence)
        torch.testing.assert_close(together[:1], alone)

    def test_a_teacher_keeps_those_of_its_task(self, make, stream):
        """The buffers that a teacher answers with are those at the end of the last task, and stand still in the next one."""
        run = run_of(make, method="lwf")
        setup = make.setup([run], stream)
        member, stage = trained(setup)
        closed = end_of_task(setup, stage, run, member)

        assert all(torch.equal(closed.frozen[name], value) for name, value in member.buffers.items())
        assert all(closed.frozen[name] is not value for name, value in closed.buffers.items())
        assert not trained(make.setup([run_of(make)], stream))[0].frozen

    def test_importances_are_of_single_samples(self, make, stream):
        """They are measured with the buffers, so they do not depend on which samples come together."""
        run = run_of(make, method="ewc")
        setup = make.setup([run], stream, torch.float64)
        member, stage = trained(setup)
        lesson, request = setup.lesson(stage), setup.learner.strategy.importance
        index = torch.from_numpy(stage.samples[:6])
        samples = Samples(lesson.inputs[index], lesson.rows[index], lesson.masks[lesson.tasks[index]], torch.zeros(6).double())
        model = resting(setup, member).learner.model
        found = [importance(model, member.params, request, samples, chunk=chunk) for chunk in (6, 1)]

        torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)

    def test_they_are_left_and_not_counted_as_parameters(self, make, stream):
        """The final parameters hold them under their names; counts of parameters leave them out."""
        outcome = make.outcomes([run_of(make)], stream=stream)[0]
        setup = make.setup([run_of(make)], stream)
        (member,) = initial_members(setup)

        assert outcome.parameters.keys() == member.params.keys() | member.buffers.keys()
        assert outcome.record.cost.params_trainable == outcome.record.cost.params_total == params_count(member.params)

    @pytest.mark.parametrize("method", ["er", "lwf"])
    def test_resume_is_bitwise(self, make, stream, looks, method):
        """Stopped within both tasks and gone on from the bytes of snapshots, a run has the bits of one that never stopped."""
        runs = [run_of(make, seed, method) for seed in range(2)]
        whole = make.outcomes(runs, stream=stream)

        assert make.facts(make.in_pieces(runs, "loop", (2, 7), stream=stream)) == make.facts(whole)
