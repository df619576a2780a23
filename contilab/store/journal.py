"""The log of an attempt, in its own directory, line by line as it comes: a killed attempt leaves it too.

Two files of bounded size: once the newer one is full it takes the place of the older one. Lines are not flushed to the disk;
what a power failure takes is told by nobody else either, and no step waits for a log.
"""

from contextlib import suppress
from pathlib import Path

from contilab.disk.read import read_file

LIMIT_BYTES = 128 * 1024  # of each of the two; chosen: a thousand lines, and less than one checkpoint


class Journal:
    """Appends lines to *newer*; what is full becomes *older*."""

    def __init__(self, newer: Path, older: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._newer = newer
        self._older = older
        self._limit_bytes = limit_bytes

    def append(self, line: bytes) -> None:
        """Add *line*, with its end, whole; a disk that refuses it, or a directory that is gone, is no reason to stop."""
        with suppress(OSError):
            if self._bytes() + len(line) > self._limit_bytes:
                self._newer.replace(self._older)
        with suppress(OSError), self._newer.open("ab", buffering=0) as file:
            file.write(line)

    def _bytes(self) -> int:
        with suppress(FileNotFoundError):
            return self._newer.stat().st_size
        return 0


def lines(newer: Path, older: Path) -> list[bytes]:
    """Return the lines of a journal, the last one too if it is only half there."""
    return [line for path in (older, newer) for line in (read_file(path, 2 * LIMIT_BYTES) or b"").splitlines()]
