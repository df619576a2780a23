"""Several workers under one parent: it starts them, shows what they do, hands signals on and merges how they ended.

Workers are started, not forked: a fork would share locks and, on a GPU, a context that cannot be used twice. Each is a runner
with claims of its own, so a killed one takes only its group down, and is replaced; the store decides what becomes of the
group. Where the kernel killed one for lack of memory, none begins to train more than half the runs that it had in training.
The parent loads no torch. Workers are in a process group of their own, so that Ctrl-C reaches them once; where the parent dies
without a word, the end of the channel tells them to stop.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import structlog

from contilab.engine.watch import Progress
from contilab.errors import Fault, StoreError, UsageError
from contilab.hardware.limits import oom_kills
from contilab.runner.channel import Messages
from contilab.runner.logging import is_readable, print_line
from contilab.runner.order import Order, planned
from contilab.runner.plans import Plans
from contilab.runner.progress import Display
from contilab.runner.signals import PARENT_GRACE_SECONDS, StopFlag
from contilab.runner.staff import Staff
from contilab.runner.tally import ALL_DONE, Verdict
from contilab.runner.worker import Task, verdict_from

LOOK_SECONDS = 0.2  # between two looks at the stop flag
END_SECONDS = 10.0  # for a worker to end that has closed its channel
DEATHS_IN_A_ROW = 3  # without a group begun in between: then another worker would only die too
WORST_FIRST = (1, 2, 5, 4, 6, 3)  # exit codes
_PROGRAM = "import sys; sys.path[:] = {path!r}; from contilab.runner.worker import main; main()"


class Worker:
    """A process that trains, seen from its parent."""

    def __init__(self, number: int, order: Order, deadline: float | None, environ: dict[str, str], shown: Display) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.settimeout(0)
            task = Task(number, theirs.fileno(), order, deadline, is_readable())
            self._process = subprocess.Popen(  # noqa: S603  our own words
                [sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path), task.text()],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environ,
                process_group=0,
            )
        self.number = number
        self.end = ours
        self.messages = Messages(ours)
        self.verdict: Verdict | None = None
        self.groups = 0
        self.members = 0
        self._shown = shown

    def follow(self) -> bool:
        """Do what the messages say that have arrived; True if the worker is idle or gone since, so that others should look."""
        is_over = False
        for what, *facts in self.messages.arrived():
            match what:
                case "log":
                    print_line(*facts)
                case "verdict":
                    self.verdict = verdict_from(facts)
                case "runs":
                    self._shown.runs(*facts)
                case "begin":
                    self.groups += 1
                    self.members = facts[1]
                    self._shown.begin(*facts)
                case "step":
                    self._shown.step(Progress(*facts[0]))
                case "end":
                    self._shown.end()
                    is_over = True
        return is_over or not self.messages.is_open

    def tell(self, signum: int) -> None:
        """Send the signal *signum*."""
        self._process.send_signal(signum)

    def ended(self) -> int:
        """Wait for the end of the process, kill it if it does not come, and return its exit code (negative: a signal)."""
        self.messages.close()
        self._shown.end()
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Workers:
    """The workers of one `contilab run`."""

    def __init__(self, order: Order, staff: Staff, stop: StopFlag, shown: Display) -> None:
        self._order = order._replace(share=order.share * staff.workers)
        self._staff = staff
        self._stop = stop
        self._shown = shown
        self._deadline = None if order.max_seconds is None else order.deadline()
        self._log = structlog.get_logger()
        self._crew: dict[int, Worker] = {}
        self._verdicts: list[Verdict] = []
        self._deaths = 0
        self._kills = oom_kills()
        self._selector = selectors.DefaultSelector()

    def work(self) -> Verdict:
        """Start the workers, wait for them all, and return how they ended together."""
        self._log.info("workers_started", workers=self._staff.workers, reason=self._staff.reason)
        with self._selector:
            for number in range(self._staff.workers):
                self._start(number)
            is_told = False
            while self._crew:
                if self._stop.is_set() and not is_told:
                    is_told = True
                    for worker in self._crew.values():
                        worker.tell(self._stop.signum)
                self._look()
        if self._stop.is_set():
            return Verdict(self._stop.exit_code, merged(self._verdicts).faults)
        return merged(self._verdicts)

    def _start(self, number: int) -> None:
        environ = {**os.environ, **self._staff.environ(number)}
        worker = Worker(number, self._order, self._deadline, environ, self._shown.beside(number))
        self._crew[number] = worker
        self._selector.register(worker.end, selectors.EVENT_READ, worker)

    def _look(self) -> None:
        for key, _ in self._selector.select(LOOK_SECONDS):
            worker: Worker = key.data
            is_over = worker.follow()
            if not worker.messages.is_open:
                self._selector.unregister(worker.end)
                self._bury(worker)  # first: the others may take over its group, and are told below how it died
            if is_over:
                for other in self._crew.values():
                    other.messages.nudge(self._order.most)

    def _bury(self, worker: Worker) -> None:
        """Note how *worker* ended; one that died without a word is replaced unless nothing but deaths comes of it."""
        del self._crew[worker.number]
        code = worker.ended()
        if worker.verdict is not None:
            self._verdicts.append(worker.verdict)
            return
        if self._stop.is_set():
            return
        self._deaths = 0 if worker.groups else self._deaths + 1
        cause = _cause(code)
        is_hopeless = self._deaths >= DEATHS_IN_A_ROW
        self._log.warning("worker_died", worker=worker.number, cause=cause, replaced=not is_hopeless)
        if code == -signal.SIGKILL and self._was_for_memory() and worker.members > 1:
            self._order = halved(self._order, worker.members)
            reason = f"the kernel killed worker {worker.number} for lack of memory"
            self._log.warning("memory_split", reason=reason, next=f"trains {self._order.most} at a time")
        if is_hopeless:
            hint = "run with --workers 1 to see it alone; a memory limit may be too small for this many workers"
            self._verdicts.append(Verdict(1, (Fault(f"worker {worker.number}", f"{cause} again and again", hint),)))
        else:
            self._start(worker.number)

    def _was_for_memory(self) -> bool:
        """Tell whether the kernel has killed for lack of memory since the last look."""
        before, self._kills = self._kills, oom_kills()
        return self._kills > before


def halved(order: Order, members: int) -> Order:
    """Return *order* for half the runs at once of a worker that was killed with *members*, or for fewer as before."""
    half = max(1, members // 2)
    return order._replace(most=half if order.most is None else min(half, order.most))


def work(order: Order, staff: Staff, stop: StopFlag, shown: Display) -> Verdict:
    """Do the work of *order* with *staff* and return how it ended, with the counts of results."""
    stop.grace_seconds = PARENT_GRACE_SECONDS
    verdict = Workers(order, staff, stop, shown).work()
    try:
        done, wanted = Plans(planned(order), order.study).results()
    except (StoreError, UsageError):  # it waited for a plan that never came, or the store has gone
        return verdict
    return settled(verdict, done, wanted)


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """Return how workers ended together: by the worst exit code, every fault once.

    A refused start (4) counts only where all were refused; where others worked it is a fault on the way (5).
    """
    codes = {verdict.code for verdict in verdicts}
    faults = tuple(dict.fromkeys(fault for verdict in verdicts for fault in verdict.faults))
    code = next((code for code in WORST_FIRST if code in codes), max(codes, default=ALL_DONE))
    done = max((verdict.done for verdict in verdicts), default=0)
    wanted = max((verdict.wanted for verdict in verdicts), default=0)
    return Verdict(5 if code == 4 and codes != {4} else code, faults, done, wanted)


def settled(verdict: Verdict, done: int, wanted: int) -> Verdict:
    """Return *verdict* with counts; what failed under one worker and was done by another is no failure."""
    is_done = wanted > 0 and done == wanted and verdict.code in (3, 5, 6)
    return Verdict(ALL_DONE, (), done, wanted) if is_done else verdict._replace(done=done, wanted=wanted)


def _cause(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"was killed by {name}" + (", as by a lack of memory" if name == "SIGKILL" else "")
    return f"was killed by signal {-code}"
