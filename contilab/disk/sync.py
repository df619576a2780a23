"""Making written things durable: without it a crash leaves files of 0 bytes (libgit2#4123)."""

import errno
import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Create *path*, which must not exist, with *data*, and flush both to the disk.

    The mode is 0666 & umask: `mkstemp` would give 0600, which another uid of a shared store cannot read.
    """
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path)  # `write` and `fsync` do not say which file
        raise


def sync_dir(path: Path) -> None:
    """Flush the names in the directory *path* to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some FUSE file systems cannot sync directories and say so; nothing to wait for then
            raise
    finally:
        os.close(handle)


def make_dir(path: Path) -> None:
    """Create the directory *path* with its parents, each new one durable in its parent."""
    try:
        _make_in_parent(path)
    except FileNotFoundError:
        make_dir(path.parent)
        _make_in_parent(path)  # once: where nothing can be made, as in /proc, the system says "no such file" for ever


def _make_in_parent(path: Path) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        sync_dir(path.parent)
