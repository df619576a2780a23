"""SIGTERM and Ctrl-C: the first asks for a stop, a second one later ends the process now, and so does a deadline.

`docker stop` sends SIGTERM, waits 10 s and kills. A process that is PID 1 has no default handlers at all, and Python runs its
own ones only between two byte codes, so not during a compilation or one long kernel. Hence the wake-up descriptor: the
interpreter's C handler writes the signal's number to a pipe at once and a thread reads it. This module loads nothing heavy,
because the handlers must be there before torch is imported.
"""

import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

GRACE_SECONDS = 8.0  # docker kills after 10
PARENT_GRACE_SECONDS = 9.0  # of a process whose workers end after 8
# of two signals that are one wish: Slurm tells each process of a job, and Apptainer and the parent of workers hand it on
TOGETHER_SECONDS = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopFlag:
    """Whether a stop was asked for. *on_deadline* may be set to what must still be written when the grace is over."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        self.grace_seconds = grace_seconds
        self._event = threading.Event()
        self._wake = threading.Event()
        self.signum = 0
        self._since = 0.0
        self.on_deadline: Callable[[], None] = _nothing

    def is_set(self) -> bool:
        """Tell whether a stop was asked for."""
        return self._event.is_set()

    def set(self, signum: int) -> None:
        """Ask for a stop because of the signal *signum*."""
        self.signum = signum
        self._since = time.monotonic()
        self._event.set()
        self._wake.set()

    def nudge(self) -> None:
        """Let whoever waits look again at once, or the next one who would wait."""
        self._wake.set()

    def wait(self, seconds: float) -> bool:
        """Sleep for *seconds*, less after a nudge or if a stop is asked for meanwhile; True if a stop was."""
        if not self._event.is_set() and self._wake.wait(seconds):
            self._wake.clear()
        return self._event.is_set()

    def seconds_left(self) -> float:
        """Return how long this process may still live; without end while no stop is asked for."""
        return self._since + self.grace_seconds - time.monotonic() if self.is_set() else math.inf

    @property
    def exit_code(self) -> int:
        """The exit code of a process that stopped: 143 for SIGTERM, 130 for Ctrl-C."""
        return 128 + (self.signum or signal.SIGTERM)


@contextmanager
def stop_on_signals(grace_seconds: float = GRACE_SECONDS) -> Iterator[StopFlag]:
    """Yield a flag that the first signal sets; only from the main thread. What was installed before is put back at the end."""
    flag = StopFlag(grace_seconds)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=_watch, args=(reader, flag), name="contilab-signals", daemon=True)
    watcher.start()
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handlers_before = {number: signal.signal(number, _wake) for number in SIGNALS}
    pipe_before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a reader that went away must not end training
    try:
        yield flag
    finally:
        for number, handler in {**handlers_before, signal.SIGPIPE: pipe_before}.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(writer)  # the watcher reads the end of the pipe and ends
        watcher.join(timeout=1)


def _watch(reader: int, flag: StopFlag) -> None:
    first: float | None = None
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            left = None if first is None else max(0.0, first + flag.grace_seconds - time.monotonic())
            ready, _, _ = select.select([pipe], [], [], left)
            if not ready:
                _end(flag, flag.on_deadline)
            received = pipe.read(1)
            if not received:
                return
            if received[0] not in SIGNALS:
                continue
            if first is None:
                first = time.monotonic()
                flag.set(received[0])
            elif time.monotonic() - first > TOGETHER_SECONDS:
                _end(flag, _nothing)  # the second signal: now


def _end(flag: StopFlag, last: Callable[[], None]) -> None:
    with suppress(Exception):  # whatever goes wrong here, the process ends; a claim without an end is right too
        last()
    os._exit(flag.exit_code)


def _wake(signum: int, frame: object) -> None:
    """Do nothing: Python writes to the wake-up descriptor only for signals that have a handler of its own."""


def _nothing() -> None:
    pass
