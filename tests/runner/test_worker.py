"""One worker, in this process: what it is started with, and how it tells its end."""

import errno
from pathlib import Path

import pytest

from contilab.errors import DeviceError
from contilab.runner import worker
from contilab.runner.order import Most, Order
from contilab.runner.signals import StopFlag
from contilab.runner.tally import Verdict
from contilab.runner.worker import Task, task_from, verdict_from

TASK = Task(2, 7, Order(Path("store"), study="s", device="cpu", share=4), None, is_readable=False)


class Deaf:
    """A channel that nobody listens to."""

    def tell(self, what, *facts):
        """Say nothing."""


class TestTask:
    """What a worker is started with."""

    def test_as_a_word(self):
        """It survives the command line."""
        assert task_from(TASK.text()) == TASK


class TestEnd:
    """How a worker ends that cannot work."""

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (DeviceError("device", "cuda:9 does not exist"), 4, "cuda:9 does not exist"),
            (OSError(errno.ENOSPC, "No space left on device"), 5, "No space left"),
            (ValueError("a fault of ours"), 1, "unexpected ValueError: a fault of ours"),
        ],
    )
    def test_error(self, monkeypatch, error, code, said):
        """Each error becomes an exit code and a sentence, for the parent to tell."""

        def fail(*_):
            raise error

        monkeypatch.setattr("contilab.runner.run.run", fail)
        verdict = worker._worked(TASK, StopFlag(), Deaf(), Most())

        assert verdict.code == code
        assert said in verdict.faults[0].problem

    def test_time(self, monkeypatch):
        """The time that starting took is counted."""
        monkeypatch.setattr("contilab.runner.run.run", lambda order, *_: order)

        assert worker._worked(TASK._replace(deadline=0.0), StopFlag(), Deaf(), Most()).max_seconds == 0

    def test_verdict(self):
        """A verdict arrives as it was sent."""
        verdict = Verdict(3, (("group a", "failed", "retry"),), 1, 2)

        assert verdict_from([3, [["group a", "failed", "retry"]], 1, 2]) == verdict
