"""Staleness: an attempt whose beat did not change for one TTL on the observer's own clock is given up.

No file time is compared with a clock, no process number is tested, no host name is trusted. A fresh observer therefore waits
one TTL: the price of trusting no clock.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from contilab.disk.read import MISPLACED, beginning
from contilab.store.clock import boottime

READ_BYTES = 4096  # of a beat at most: it has 512
READS = 3  # good ones, so that one slow answer is no proof


class Sight(NamedTuple):
    """What was seen: the bytes (None: no beat yet), since when (seconds of the own clock), in how many good reads."""

    beat: bytes | None
    since: float
    reads: int


class Observer:
    """Remembers the beats it has seen. One per process; *clock* gives seconds."""

    def __init__(self, ttl_s: float, *, clock: Callable[[], float] = boottime) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._sights: dict[Path, Sight] = {}

    def is_stale(self, path: Path) -> bool:
        """Read the beat at *path* once more; True if it has been the same for one TTL in at least three good reads."""
        try:
            beat = beginning(path, READ_BYTES)  # opened anew each time: `stat` may be cached, `open` asks the server
        except OSError as error:
            if error.errno not in (errno.ENOENT, *MISPLACED):  # EIO, ESTALE: not a read
                return False
            beat = None
        now = self._clock()
        seen = self._sights.get(path)
        is_same = seen is not None and seen.beat == beat
        sight = Sight(beat, seen.since, seen.reads + 1) if seen and is_same else Sight(beat, now, 1)
        self._sights[path] = sight
        return sight.reads >= READS and now - sight.since >= self._ttl_s
