"""Machines that are not as they should be, as patches of the process that calls `cause`: wrong clocks, lying file systems.

Each lie is one that a network file system was seen to tell. `skew:SECONDS` shifts the wall clock. `eexist` and `enoent` report
links and renames that worked as failed (a request that was repeated since the reply was lost); every second one, so that the
truth is told too. `estale`: every third read meets a stale handle. `listing`: names are up to a second old. `eio`: every 40th
fsync fails. `enospc`: every fifth file cannot be closed, since the server is full.
"""

import errno
import os
import time
from pathlib import Path


def cause(kind):
    """Cause the trouble that *kind* names, in this process, for good."""
    name, _, value = kind.partition(":")
    {
        "skew": lambda: _skew(float(value)),
        "eexist": lambda: _repeat(errno.EEXIST, errno.ENOTEMPTY),
        "enoent": lambda: _repeat(errno.ENOENT, errno.ENOENT),
        "estale": _stale,
        "listing": _old_listings,
        "eio": _no_sync,
        "enospc": _no_close,
    }[name]()


def _skew(seconds):
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1e9)


def _nth(n):
    """Return a function that is true at every n-th call."""
    calls = [0]

    def is_due():
        calls[0] += 1
        return calls[0] % n == 0

    return is_due


def _repeat(of_link, of_rename):
    for name, number in (("hardlink_to", of_link), ("rename", of_rename)):
        setattr(Path, name, _repeated(getattr(Path, name), number, _nth(2)))


def _repeated(action, number, is_due):
    def act(path, target):
        action(path, target)
        if is_due():
            raise OSError(number, os.strerror(number), str(path))

    return act


def _stale():
    opened, is_due = os.open, _nth(3)

    def open_(path, flags, *rest, **settings):
        if flags & os.O_NONBLOCK and is_due():  # as all of the store is read
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return opened(path, flags, *rest, **settings)

    os.open = open_


def _old_listings():
    look, seen = Path.iterdir, {}

    def iterdir(path):
        at, found = seen.get(str(path), (-10.0, []))
        if time.monotonic() - at > 1.0:
            at, found = seen[str(path)] = (time.monotonic(), list(look(path)))
        return iter(found)

    Path.iterdir = iterdir


def _no_sync():
    sync, is_due = os.fsync, _nth(40)

    def fsync(handle):
        if is_due():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(handle)

    os.fsync = fsync


def _no_close():
    opened, is_due = Path.open, _nth(5)

    class Closing:
        """A file that is written whole and then refused."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self.file

        def __exit__(self, *_):
            self.file.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_(path, mode="r", *rest, **settings):
        file = opened(path, mode, *rest, **settings)
        return Closing(file) if "x" in mode and is_due() else file

    Path.open = open_
