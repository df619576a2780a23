"""The reserve: 64 KiB that a runner holds back on the file system of the store, so that its last words fit on a full disk."""

import contextlib
import os
import weakref
from pathlib import Path

from contilab.disk.sync import make_dir, write_synced

RESERVE_BYTES = 64 * 1024


class Reserve:
    """One file at *path*. It goes with the runner that made it; an idle runner collects that of a killed one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._remove = weakref.finalize(self, _remove, path, os.getpid())

    def fill(self) -> None:
        """Hold the space back if that is not done yet; OSError where there is none, and then no part of it stays."""
        if os.path.lexists(self._path):
            return
        try:
            make_dir(self._path.parent)
            write_synced(self._path, os.urandom(RESERVE_BYTES))  # random: nothing that a file system could compress
        except OSError:
            self.release()
            raise

    def release(self) -> bool:
        """Give the space back; True if there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Remove the file at the end of the runner; the end of the process does it too."""
        self._remove()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not take it away
        with contextlib.suppress(OSError):
            path.unlink()
