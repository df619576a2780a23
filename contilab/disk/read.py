"""Reading what other processes write and remove at any moment: gone is an answer, not an error.

ENOENT and ESTALE mean "gone"; a stale handle of a network file system is opened again first (filelock#669, toil#3867).
"""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

TRIES = 3  # of a stale handle; more means that the server has lost the file

T = TypeVar("T")


def read_bytes(path: Path) -> bytes | None:
    """Return the content of *path*, or None if it is not there."""
    return _unless_gone(path.read_bytes)


def read_table(path: Path) -> dict[str, Any]:
    """Return the JSON object in *path*; empty if the file is not there or holds anything else."""
    try:
        return read_object(read_bytes(path))
    except IsADirectoryError:
        return {}


def read_object(data: bytes | None) -> dict[str, Any]:
    """Return the JSON object that *data* holds; empty if they hold anything else."""
    try:
        table = json.loads(data or b"{}")
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def names(directory: Path) -> list[str]:
    """Return the sorted names in *directory*, without temps; none if it is not there, or is no directory."""
    try:
        found = _unless_gone(lambda: [path.name for path in directory.iterdir()])
    except NotADirectoryError:  # a file that somebody left there
        return []
    return sorted(name for name in found or [] if not name.startswith("."))


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
