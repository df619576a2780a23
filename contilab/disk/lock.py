"""A file lock with bounded waits. It saves work and never carries correctness: all must be right when it always says yes.

filelock >= 4 keeps the file at release (releases 3.21.0 to 3.29.4 deleted it) and `preserve_lock_file` refuses the soft
fallback. A lock server that does not answer may block even a non-blocking call, so the call runs in a thread of its own
and is left behind after `ANSWER_SECONDS`; should it get the lock later, it gives it back.
"""

import contextlib
import errno
import threading
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from contilab.errors import StoreError

ANSWER_SECONDS = 5.0  # beyond the asked wait; chosen

Answer = Literal["held", "busy", "without"]


class Lock:
    """One lock on *path*, acquired and released any number of times by one owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FileLock | None = None

    def acquire(self, timeout_s: float = 0.0) -> Answer:
        """Try for *timeout_s* seconds: "held", "busy" (another holds it), or "without" (locks do not work here).

        Raises StoreError if the file system is read-only.
        """
        attempt = _Attempt(self.path, timeout_s)
        attempt.start()
        attempt.join(timeout_s + ANSWER_SECONDS)
        self._lock = attempt.take()
        if isinstance(attempt.error, Timeout):
            return "busy"
        if isinstance(attempt.error, OSError) and attempt.error.errno == errno.EROFS:
            problem = "the file system is read-only, so nothing can be claimed or published"
            raise StoreError(str(self.path), problem, hint="mount the volume writable") from attempt.error
        return "held" if self._lock else "without"

    def release(self) -> None:
        """Give the lock back if it is held."""
        if self._lock:
            with contextlib.suppress(OSError):  # the file system went away; the kernel frees it with the process
                self._lock.release()
            self._lock = None

    @property
    def is_held(self) -> bool:
        """Whether the last `acquire` got the lock and it was not released."""
        return self._lock is not None


class _Attempt(threading.Thread):
    """One acquisition that may be left behind."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__(daemon=True)
        self.error: OSError | None = None
        self._lock = FileLock(path, preserve_lock_file=True, thread_local=False)
        self._timeout_s = timeout_s
        self._handover = threading.Lock()
        self._state: Literal["trying", "got", "failed", "left"] = "trying"

    def run(self) -> None:
        try:
            self._lock.acquire(timeout=self._timeout_s)
        except OSError as error:  # Timeout is one; ENOLCK, ENOSYS, EACCES, ESTALE: the caller goes on without
            self.error = error
            self._state = "failed"
            return
        with self._handover:
            if self._state == "left":
                self._lock.release()
            self._state = "got"

    def take(self) -> FileLock | None:
        """Return the lock if it was got; else leave the attempt behind."""
        with self._handover:
            if self._state == "got":
                return self._lock
            if self._state == "trying":
                self._state = "left"
            return None
