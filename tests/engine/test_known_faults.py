"""Faults that other frameworks had, where no test of a single part would have caught them."""

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from contilab import catalog
from contilab.engine.diary import Diary
from contilab.engine.executions.loop import loop
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.stage import Session, train_stage
from contilab.engine.watch import silent
from contilab.spec.sections import Train


class TestEndOfTask:
    """The matrix holds accuracies at ends of tasks."""

    def test_no_better_moment_is_reported(self, make, looks):
        """Task 0 was better known in the midst of task 1 than at its end; the matrix holds the end."""
        run = make.run(train=Train(steps=20, batch=16))
        setup = make.setup([run])
        shelf = make.shelf_of([run], due=range(60))
        [outcome] = make.outcomes([run])
        index = setup.stream.tasks[0].test
        inputs, rows = setup.stream.test_inputs[index], setup.stream.test_rows[index]

        def accuracy(step):
            files = load(shelf.files(step)[f"{run.rid}.safetensors"])
            params = {name: files[f".params['{name}']"] for name in setup.learner.model.table}
            logits = setup.learner.model.forward(params, {}, inputs).logits[:, :4]
            return float((logits.argmax(-1) == rows).double().mean())

        within = [accuracy(step) for step in range(21, 41)]

        assert max(within) > within[-1]
        assert outcome.record.accuracy[1][0] == pytest.approx(within[-1])


class TestWrongHead:
    """A teacher that has an effect, and errors of raw logits."""

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_lwf_pulls_at_old_rows(self, make, scenario):
        """Beside naive training the weights of the first task's head rows end elsewhere, whatever the scenario."""
        train = Train(steps=4, batch=16)
        kept, free = (make.outcomes([make.run(method=m, scenario=scenario, train=train)])[0] for m in ("lwf", "naive"))

        assert np.abs(kept.parameters["head.weight"][:2] - free.parameters["head.weight"][:2]).max() > 1e-4

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    @pytest.mark.parametrize("method", ["der", "derpp", "mas", "lwf"])
    def test_first_step_of_the_second_task_is_finite(self, make, method, scenario):
        """A squared error of a masked logit would cost 1e18 there."""
        [outcome] = make.outcomes([make.run(method=method, scenario=scenario, train=Train(steps=1, batch=16))])

        assert [len(stage) for stage in outcome.record.train_loss] == [1, 1, 1]
        assert 0 < outcome.record.train_loss[1][0] < 1e6


class Calls(TorchDispatchMode):
    """Counts the operations that torch is asked for."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count one, and do it."""
        self.count += 1
        return func(*args, **(kwargs or {}))


class TestLaterTasks:
    """Steps of later tasks cost no more."""

    @pytest.mark.slow
    @pytest.mark.parametrize("method", sorted(set(catalog.STRATEGIES) - {"gem", "cumulative", "icarl", "gdumb", "joint"}))
    def test_last_task_takes_the_work_of_the_second(self, make, method):
        """Multiplications and calls of ten steps of task 11 are at most 1.3 times those of task 1, of as many samples."""
        run = make.run(method=method, train=Train(steps=10, batch=16), scenario="task")
        work = [self.work(make, run, tasks) for tasks in (2, 12)]

        assert work[1][0] <= 1.3 * work[0][0]
        assert work[1][1] <= 1.3 * work[0][1]

    def work(self, make, run, tasks):
        """Return operations and calls of the last of *tasks* equal tasks."""
        setup = make.setup([run], make.stream((24,) * 12))
        draws = draws_of(setup)
        session = Session(setup, loop(setup.learner), draws, silent())
        members, memory = initial_members(setup), initial_memory(setup)
        for stage in setup.stages[: tasks - 1]:
            members, _ = train_stage(session, stage, members, memory)
        with FlopCounterMode(display=False) as flops, Calls() as calls:
            train_stage(session, setup.stages[tasks - 1], members, memory)
        return flops.get_total_flops(), calls.count


class TestDivergence:
    """Numbers on their way to infinity."""

    def test_mean_of_huge_losses_is_finite(self, make):
        """Before the first loss that is not finite come huge ones: float32 does not hold their sum, yet their mean is told."""
        setup, diary = make.setup([make.run()]), Diary()
        losses = np.array([3e38, 3e38, np.inf], dtype=np.float32)
        diary.note_losses(setup, setup.stages[0], losses, initial_memory(setup).entries()[0])

        assert diary.train_loss == [[pytest.approx(3e38)]]
        assert diary.diverged == {"task": 0, "step": 2}

    def test_mean_over_members_is_finite(self, make):
        """While two members diverge the loss that is shown of a step is their mean, which float32 has no sum for."""
        setup, seen = make.setup([make.run(seed) for seed in range(2)]), []
        huge = loop(setup.learner)._replace(train=lambda one, _, draws: (one, torch.full(draws.current.shape[:2], 3e38)))
        session = Session(setup, huge, draws_of(setup), silent()._replace(progress=seen.append))
        train_stage(session, setup.stages[0], initial_members(setup), initial_memory(setup))

        assert [progress.loss for progress in seen] == pytest.approx([3e38] * len(seen))
