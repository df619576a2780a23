"""What a person or a machine sees while groups are trained: bars on a terminal, a JSON line now and then otherwise."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

from contilab.engine.watch import Progress
from contilab.runner.logging import is_readable

LINE_SECONDS = 10.0  # chosen: a day of training leaves 8,640 lines


class Display(Protocol):
    """Shows runs that are done and the group in work."""

    def runs(self, done: int, wanted: int) -> None:
        """Show that *done* of *wanted* runs have a result."""

    def begin(self, label: str, members: int) -> None:
        """Show that *members* runs of a group are in work, all of them or a part."""

    def step(self, progress: Progress) -> None:
        """Show how far the group is."""

    def end(self) -> None:
        """Show that the group is no longer in work."""

    def beside(self, worker: int) -> "Display":
        """Return a display for the group that *worker* has in work at the same time."""


@contextmanager
def display() -> Iterator[Display]:
    """Yield the display that fits standard error."""
    if is_readable():
        from contilab.runner.bars import bars

        with bars(color="NO_COLOR" not in os.environ, file=sys.stderr) as shown:
            yield shown
    else:
        yield Lines()


class Lines:
    """Logs a line of progress at most every *seconds*."""

    def __init__(self, seconds: float = LINE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next = clock() + seconds
        self._facts: dict[str, object] = {}

    def beside(self, worker: int) -> "Lines":
        """Return lines that carry the number of *worker*."""
        lines = Lines(self._seconds, self._clock)
        lines._facts["worker"] = worker
        return lines

    def runs(self, done: int, wanted: int) -> None:
        """Remember the counts for the next line."""
        self._facts |= {"runs_done": done, "runs_wanted": wanted}

    def begin(self, label: str, members: int) -> None:
        """Remember the group for the next lines."""
        self._facts |= {"group": label, "members": members}

    def step(self, progress: Progress) -> None:
        """Log a line if it is time."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + self._seconds
        structlog.get_logger().info("progress", **self._facts, **progress._asdict())

    def end(self) -> None:
        """Say nothing: the runner logs how a group ended."""
