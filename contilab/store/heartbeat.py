"""The heartbeat of an attempt: a thread that writes a fresh random value, so that others see life without any clock.

The owner also checks itself: each beat looks for a higher generation, and after a gap (a suspended machine, a stopped
process, a disk that did not answer) `is_lost` looks before the owner goes on.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contilab.disk.sync import write_synced
from contilab.store.clock import boottime

BEAT_BYTES = 512  # fixed, so that one pwrite replaces the whole content
FIRST_SECONDS = 1.0  # the second beat comes after this, each later one after twice as long: short groups show progress too
JOIN_SECONDS = 5.0  # a beat that hangs in a dead file server is left behind


class Heartbeat:
    """Beats at *path* every *beat_s* seconds, at first more often, until stopped.

    *is_followed* tells whether a higher generation exists, *is_cancelled* whether a user wants the group stopped.
    """

    def __init__(
        self,
        path: Path,
        *,
        runner: str,
        ttl_s: float,
        beat_s: float,
        is_followed: Callable[[], bool],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._path = path
        self._facts: dict[str, Any] = {"runner": runner}
        self._beat_s = beat_s
        self._longest_gap_s = ttl_s - 2 * beat_s
        self._is_followed = is_followed
        self._is_cancelled = is_cancelled
        self._checked = boottime()
        self._lost = threading.Event()
        self._cancelled = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first beat and start the thread; OSError if it cannot be written."""
        write_synced(self._path, self._content())
        self._checked = boottime()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a beat under way is finished, or left behind after some seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def tell(self, **facts: float) -> None:
        """Put *facts* (numbers, for display) into the beats from now on."""
        self._facts = {**self._facts, **facts}

    def is_lost(self) -> bool:
        """Whether a higher generation exists or the working directory is gone. Looks itself after a gap; else costs nothing."""
        if not self._lost.is_set() and boottime() - self._checked > self._longest_gap_s:
            self._check()
        return self._lost.is_set()

    def give_up(self) -> None:
        """Remember that the working directory is gone."""
        self._lost.set()

    def is_cancelled(self) -> bool:
        """Whether the last beat found that the group was cancelled; costs nothing."""
        return self._cancelled.is_set()

    def _loop(self) -> None:
        pause = min(FIRST_SECONDS, self._beat_s)
        while not self._stopped.wait(pause):
            pause = min(2 * pause, self._beat_s)
            # a failed beat is no reason to stop: the next may succeed, and `is_lost` notices the gap
            with contextlib.suppress(OSError):
                self._beat()

    def _beat(self) -> None:
        try:
            self._write()
        except FileNotFoundError:  # whoever removed the directory has seen a higher generation or all results
            self._lost.set()
            return
        self._check()

    def _check(self) -> None:
        if self._is_followed():
            self._lost.set()
        self._checked = boottime()
        if self._is_cancelled():
            self._cancelled.set()

    def _write(self) -> None:
        handle = os.open(self._path, os.O_WRONLY)  # never created anew
        try:
            os.pwrite(handle, self._content(), 0)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _content(self) -> bytes:
        text = json.dumps({**self._facts, "value": os.urandom(8).hex()})
        return text.ljust(BEAT_BYTES - 1).encode() + b"\n"
