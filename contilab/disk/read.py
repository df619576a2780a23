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


def read_json(path: Path) -> Any:
    """Return the JSON value in *path*, or None if it is not there or not JSON."""
    data = read_bytes(path)
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return None


def names(directory: Path) -> list[str]:
    """Return the sorted names in *directory*, without temps; none if it is not there."""
    found = _unless_gone(lambda: [path.name for path in directory.iterdir()])
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
