"""How many cores other processes keep busy while something is measured: a number that belongs beside every speed.

From the time that all cores were busy, minus that of the own tree of processes. A busy neighbour slows a run of two threads on
two cores 1.4 to 16 times, because each step waits for its slower half; so nothing measured beside one tells how fast a form is.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]  # it ships no types

MOST_CORES = 0.2  # that others may use before a measurement is taken again
NOT_BUSY = ("idle", "iowait", "guest", "guest_nice", "steal")  # guest time is part of user time already


class Neighbours:
    """Cores that processes outside the tree under *root* use, on average while inside `with`; *cores* after it."""

    def __init__(self, root: int | None = None) -> None:
        self.root = os.getpid() if root is None else root
        self.cores = 0.0

    def __enter__(self) -> Self:
        self._begin = (time.perf_counter(), machine_seconds(), tree_seconds(self.root))
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        begin, busy, own = self._begin
        foreign = (machine_seconds() - busy) - (tree_seconds(self.root) - own)
        self.cores = max(0.0, foreign / max(time.perf_counter() - begin, 1e-9))

    @property
    def are_busy(self) -> bool:
        """Whether they used so much that what was measured meanwhile should be measured again."""
        return self.cores > MOST_CORES


def machine_seconds() -> float:
    """Return the seconds that all cores of the machine were busy since it started."""
    times = psutil.cpu_times()._asdict()
    return float(sum(value for name, value in times.items() if name not in NOT_BUSY))


def tree_seconds(root: int) -> float:
    """Return the seconds of processor time of the process *root*, of all under it, and of those of them that have ended."""
    total = 0.0
    for process in _tree(root):
        with suppress(psutil.Error):  # it has ended; its time goes to its parent, once that notices
            total += sum(process.cpu_times()[:4])  # user, system, and both of children that have ended
    return total


def _tree(root: int) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        top = psutil.Process(root)
        yield top
        yield from top.children(recursive=True)
