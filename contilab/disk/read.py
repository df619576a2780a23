"""Reading what other processes write and remove at any moment: gone is an answer, not an error.

ENOENT and ESTALE mean "gone"; a stale handle of a network file system is opened again first (filelock#669, toil#3867).
"""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

MISPLACED = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)  # something of another kind lies there

TRIES = 3  # of a stale handle; more means that the server has lost the file

T = TypeVar("T")


def read_bytes(path: Path) -> bytes | None:
    """Return the content of *path*, or None if it is not there."""
    return _unless_gone(lambda: beginning(path))


def read_table(path: Path) -> dict[str, Any]:
    """Return the JSON object in *path*; empty if the file is not there, is none or holds anything else."""
    return read_object(read_file(path))


def read_file(path: Path, at_most: int = -1) -> bytes | None:
    """Return the content of the file *path*, its first *at_most* bytes if given; None if no file is there."""
    try:
        return _unless_gone(lambda: beginning(path, at_most))
    except OSError as error:
        if error.errno in MISPLACED:
            return None
        raise


def read_object(data: bytes | None) -> dict[str, Any]:
    """Return the JSON object that *data* holds; empty if they hold anything else."""
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def names(directory: Path) -> list[str]:
    """Return the sorted names in *directory*, without temps; none if it is not there, or is no directory."""
    try:
        found = _unless_gone(lambda: [path.name for path in directory.iterdir()])
    except OSError as error:
        if error.errno in MISPLACED:  # a file that somebody left there
            return []
        raise
    return sorted(name for name in found or [] if not name.startswith("."))


def beginning(path: Path, at_most: int = -1) -> bytes:
    """Return the content of *path*, its first *at_most* bytes if given; OSError where that is not possible.

    A pipe that somebody left there is empty, and does not hold the reader up until a writer comes.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        return file.read(at_most)


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _unless_gone(action: Callable[[], T]) -> T | None:
    for _ in range(TRIES):
        try:
            return action()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return None
