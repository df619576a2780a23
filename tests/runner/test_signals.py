"""Signals, tried on real processes."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest

from contilab.runner.signals import GRACE_SECONDS, PARENT_GRACE_SECONDS, TOGETHER_SECONDS, StopFlag, stop_on_signals

PROGRAM = """
import sys, time
from contilab.runner import signals
from contilab.runner.signals import stop_on_signals

signals.TOGETHER_SECONDS = {together}
with stop_on_signals(grace_seconds={grace}) as stop:
    stop.on_deadline = lambda: print("last", flush=True)
    print("ready", flush=True)
    {body}
    print("left", flush=True)
    sys.exit(stop.exit_code)
"""
POLITE = "stop.wait(30)"
STUBBORN = "time.sleep(30)"
# for minutes it does not come back to the interpreter, so no Python handler runs; a sleep of the C library would be cut short
ONE_LONG_CALL = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"


def ended(
    body: str, *signals: int, grace: float = 30, pause: float = 0.1, together: float = TOGETHER_SECONDS
) -> tuple[int, str]:
    """Start a program, send it *signals*, and return its exit code and what it printed; "left" means it came to its end."""
    program = PROGRAM.format(grace=grace, body=body, together=together)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in signals:
            process.send_signal(number)
            time.sleep(pause)
        output, _ = process.communicate(timeout=20)
    return process.returncode, output


class TestStopOnSignals:
    """A process that listens."""

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_first_asks(self, number, code):
        """The first signal sets the flag and lets the program end by itself, with the exit code of the signal."""
        assert ended(POLITE, number) == (code, "left\n")

    def test_second_ends_now(self):
        """A second signal ends the process before it comes to an end, without anything being written."""
        assert ended(STUBBORN, signal.SIGTERM, signal.SIGTERM, pause=0.4, together=0.2) == (143, "")

    def test_signals_that_come_together_are_one(self):
        """What a batch system sends to each process of a job, and a parent hands on, is one wish: last words are written."""
        assert ended(STUBBORN, signal.SIGTERM, signal.SIGTERM, signal.SIGTERM, grace=1.5) == (143, "last\n")

    @pytest.mark.parametrize("body", [STUBBORN, ONE_LONG_CALL])
    def test_deadline(self, body):
        """When the grace is over the last words are written and the process ends, also within one long call."""
        assert ended(body, signal.SIGTERM, grace=0.3) == (143, "last\n")

    def test_other_signals_do_nothing(self):
        """Signals that ask for no stop leave the flag alone."""
        with stop_on_signals() as stop:
            before = signal.signal(signal.SIGUSR1, lambda *_: None)
            os.kill(os.getpid(), signal.SIGUSR1)

            assert not stop.wait(0.05)
            signal.signal(signal.SIGUSR1, before)

    def test_leaves_no_trace(self):
        """Afterwards the handlers are those of before."""
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)]
        with stop_on_signals():
            pass

        assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)]

    def test_in_process(self):
        """The flag is set by a signal to this process and tells its exit code."""
        with stop_on_signals() as stop:
            assert not stop.is_set()
            os.kill(os.getpid(), signal.SIGTERM)

            assert stop.wait(5)
            assert stop.is_set()
            assert stop.exit_code == 143

    def test_nudge(self):
        """A nudge ends a wait at once, the next one if nobody waits; it is no stop."""
        stop = StopFlag()
        stop.nudge()

        assert not stop.wait(100_000)  # or the test never ends
        assert not stop.wait(0.01)

    def test_time_left(self):
        """Without a stop there is time without end, after it what is left of the grace."""
        stop = StopFlag(grace_seconds=8)
        before = stop.seconds_left()
        stop.set(signal.SIGTERM)

        assert before == math.inf
        assert 7 < stop.seconds_left() <= 8

    def test_grace(self):
        """A runner ends within 8 seconds of a stop and its parent after it, both before Docker kills at 10."""
        assert GRACE_SECONDS < PARENT_GRACE_SECONDS < 10
