"""What a worker tells its parent: one JSON line per message over a socket. The end of it says that the other side is gone.

A parent says little: to look again, and how many runs to train at once, as another worker was killed with more.
"""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from contilab.engine.watch import Progress
from contilab.runner.progress import Display

NUDGE = b"\n"  # what a parent says: look again; after a number, train no more runs than that at once


class Channel:
    """The end of a worker."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._line = ""

    def tell(self, what: str, *facts: Any) -> None:
        """Send one message; nobody listens any more where that fails, and then the process is about to end."""
        line = json.dumps([what, *facts], default=str).encode() + b"\n"
        with self._lock, suppress(OSError):
            self._end.sendall(line)

    def write(self, text: str) -> int:
        """Take a part of a line of the log, to be printed by the parent: only one process writes to standard error."""
        with self._lock:
            self._line += text
        return len(text)

    def flush(self) -> None:
        """Send what was written as one message: a line and its end would mix with those of others."""
        with self._lock:
            line, self._line = self._line, ""
        if line:
            self.tell("log", line)

    def listen(self, nudge: Callable[[], None], at_most: Callable[[int], None]) -> None:
        """Call *nudge* for each word of the parent, *at_most* before if it has a number, in a thread.

        Send SIGTERM to this process once the parent is gone.
        """
        threading.Thread(target=self._listen, args=(nudge, at_most), name="parent", daemon=True).start()

    def _listen(self, nudge: Callable[[], None], at_most: Callable[[int], None]) -> None:
        rest = b""
        with suppress(OSError):
            while data := self._end.recv(64):
                *words, rest = (rest + data).split(NUDGE)
                for word in filter(None, words):
                    at_most(int(word))
                nudge()
        os.kill(os.getpid(), signal.SIGTERM)


class Remote:
    """A display in a worker: its parent shows it."""

    def __init__(self, channel: Channel) -> None:
        self._tell = channel.tell

    def runs(self, done: int, wanted: int) -> None:
        """Tell the counts."""
        self._tell("runs", done, wanted)

    def begin(self, label: str, members: int) -> None:
        """Tell the group."""
        self._tell("begin", label, members)

    def step(self, progress: Progress) -> None:
        """Tell how far the group is."""
        self._tell("step", progress)

    def end(self) -> None:
        """Tell that the group is no longer in work."""
        self._tell("end")

    def beside(self, worker: int) -> Display:
        """Refuse: a worker has no workers."""
        raise NotImplementedError(f"worker {worker} of a worker")


class Messages:
    """Splits what arrives at the parent's *end* into messages."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._rest = b""
        self.is_open = True

    def arrived(self) -> Iterator[list[Any]]:
        """Yield the messages that are complete now; the half of one that a killed worker left is dropped."""
        try:
            data = self._end.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.is_open = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from (json.loads(line) for line in lines)

    def nudge(self, most: int | None = None) -> None:
        """Let the worker look again at once, and train no more than *most* runs together; one that does not read is busy."""
        with suppress(OSError):
            self._end.send((b"" if most is None else b"%d" % most) + NUDGE)

    def close(self) -> None:
        """Close this end."""
        self._end.close()
