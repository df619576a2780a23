"""One worker of several: a process of its own that claims and trains like any runner, and tells its parent what it does."""

import json
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from contilab.errors import ContilabError, EnvironmentFault, Fault
from contilab.hardware.process import prepare
from contilab.runner.channel import Channel, Remote
from contilab.runner.faults import fault_of
from contilab.runner.logging import configure
from contilab.runner.order import Most, Order
from contilab.runner.signals import StopFlag, stop_on_signals
from contilab.runner.tally import Verdict
from contilab.store.ending import is_environment

OOM = Path("/proc/self/oom_score_adj")
OOM_SCORE = "300"  # of 1000; chosen: above that of other programs, which have 0


class Task(NamedTuple):
    """What a worker is started with: its *number* (from 0), the descriptor of its channel, its order, and when time is over.

    *deadline*: on the monotonic clock, which all processes of a machine share; None: never.
    """

    number: int
    descriptor: int
    order: Order
    deadline: float | None
    is_readable: bool

    def text(self) -> str:
        """Return the task as one word of a command line."""
        order = {**self.order._asdict(), "root": str(self.order.root)}
        return json.dumps({**self._asdict(), "order": order})


def task_from(text: str) -> Task:
    """Return the task that *text* says."""
    facts = json.loads(text)
    order = Order(**{**facts["order"], "root": Path(facts["order"]["root"])})
    return Task(**{**facts, "order": order})


def main() -> None:
    """Do the task that the command line names and exit; how it ended is told to the parent."""
    with stop_on_signals() as stop:  # before torch is imported
        task = task_from(sys.argv[1])
        end = socket.socket(fileno=task.descriptor)
        end.set_inheritable(inheritable=False)  # else a helper of a compiler keeps the channel open
        channel = Channel(end)
        most = Most(task.order.most)
        channel.listen(stop.nudge, most.lower)
        with suppress(OSError):  # where memory runs out the system shall take a worker, which is replaced, and not its parent
            OOM.write_text(OOM_SCORE)
        prepare()
        configure(readable=task.is_readable, output=channel, worker=task.number)
        verdict = _worked(task, stop, channel, most)
        channel.tell("verdict", *verdict)
    sys.exit(verdict.code)


def _worked(task: Task, stop: StopFlag, channel: Channel, most: Most) -> Verdict:
    try:
        from contilab.runner.run import run

        left = None if task.deadline is None else max(0.0, task.deadline - time.monotonic())  # importing took some of it
        return run(task.order._replace(max_seconds=left), stop, Remote(channel), most)
    except ContilabError as error:
        return Verdict(error.exit_code, error.faults)
    except Exception as error:  # noqa: BLE001  the last place of this process that can turn it into a sentence
        if is_environment(error):
            return Verdict(EnvironmentFault.exit_code, (fault_of(error, str(task.order.root)),))
        structlog.get_logger().error("worker_failed", traceback=traceback.format_exc())
        return Verdict(1, (_fault_of_ours(task, error),))


def _fault_of_ours(task: Task, error: Exception) -> Fault:
    problem = f"unexpected {type(error).__name__}: {error}".splitlines()[0]
    return Fault(f"worker {task.number}", problem, "please report it with the traceback in the log above")


def verdict_from(facts: list[Any]) -> Verdict:
    """Return the verdict that a worker told."""
    code, faults, done, wanted = facts
    return Verdict(code, tuple(Fault(*fault) for fault in faults), done, wanted)
