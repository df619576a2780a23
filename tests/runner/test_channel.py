"""What passes between a worker and its parent."""

import os
import signal
import socket
import threading

import pytest

from contilab.engine.watch import Progress
from contilab.runner.channel import Channel, Messages, Remote


@pytest.fixture
def both():
    """The channel of a worker and the messages of its parent."""
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    with ours, theirs:
        yield Channel(theirs), Messages(ours), theirs


class TestMessages:
    """From the worker to its parent."""

    def test_display(self, both):
        """What a display is told arrives, in order."""
        channel, messages, _ = both
        shown = Remote(channel)
        now = Progress(task=0, tasks=2, step=5, steps=10, samples_per_second=1234.5, loss=None)
        shown.runs(3, 8)
        shown.begin("er", 4)
        shown.step(now)
        shown.end()

        assert list(messages.arrived()) == [["runs", 3, 8], ["begin", "er", 4], ["step", list(now)], ["end"]]

    def test_log_lines_are_whole(self, both):
        """Parts of a line arrive as one message, so that lines of several workers do not mix."""
        channel, messages, _ = both
        print("one line", file=channel, flush=True)

        assert list(messages.arrived()) == [["log", "one line\n"]]

    def test_half_a_message(self, both):
        """Half a message waits for its other half, and is dropped where that never comes."""
        _, messages, theirs = both
        theirs.sendall(b'["end"]\n["beg')

        assert list(messages.arrived()) == [["end"]]
        theirs.sendall(b'in", "er", 1]\n["e')
        assert list(messages.arrived()) == [["begin", "er", 1]]
        theirs.close()
        assert list(messages.arrived()) == []
        assert not messages.is_open

    def test_nothing_yet(self, both):
        """Where nothing has arrived nothing is waited for."""
        assert list(both[1].arrived()) == []

    def test_nobody_listens(self, both):
        """A parent that is gone is no reason to fail."""
        channel, messages, _ = both
        messages.close()

        channel.tell("end")

    def test_no_workers_of_workers(self, both):
        """A worker has no display for workers of its own."""
        with pytest.raises(NotImplementedError):
            Remote(both[0]).beside(0)


class TestListen:
    """From the parent to its worker."""

    def test_nudge_and_end(self, both, monkeypatch):
        """A nudge arrives; the end of the parent asks for a stop of the worker."""
        channel, messages, _ = both
        nudged, killed = threading.Event(), threading.Event()
        monkeypatch.setattr(os, "kill", lambda pid, number: (pid, number) == (os.getpid(), signal.SIGTERM) and killed.set())
        channel.listen(nudged.set, lambda _runs: None)
        messages.nudge()

        assert nudged.wait(5)
        assert not killed.is_set()
        messages.close()
        assert killed.wait(5)
