"""Atomic directories: a result is built aside, sealed by its manifest, and arrives complete by one rename.

`rename` of a directory onto a non-empty one fails (ENOTEMPTY), so a result is never replaced. Onto an **empty** one it
succeeds, so nobody may create the final name beforehand.
"""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contilab.disk.failpoint import failpoint
from contilab.disk.read import read_file
from contilab.disk.sync import sync_dir

MANIFEST = "MANIFEST.json"

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR)  # or the lost reply to our own rename


def publish_dir(temp: Path, final: Path, manifest: Mapping[str, Any], *, compared: frozenset[str] = frozenset()) -> bool:
    """Seal the directory *temp* and rename it to *final*. True if ours landed, False if another result is there.

    *manifest*: who made it. *compared*: names of files that must be bitwise equal between two comparable attempts.
    Raises FileNotFoundError if *temp* is gone and nothing is at *final*.
    """
    sealed = seal(temp, manifest, compared=compared)
    try:
        temp.rename(final)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        if read_manifest(final) != sealed:
            if error.errno == errno.ENOENT and not os.path.lexists(final):
                raise
            return False
    sync_dir(final.parent)  # both parents: else a crash keeps the result in neither (python-atomicwrites PR 15)
    sync_dir(temp.parent)
    return True


def seal(directory: Path, manifest: Mapping[str, Any], *, compared: frozenset[str] = frozenset()) -> bytes:
    """Flush each file of *directory*, then write MANIFEST.json with size and SHA-256 of each; return its bytes."""
    (directory / MANIFEST).unlink(missing_ok=True)  # of an earlier try of the same attempt
    files = {}
    for path in sorted(directory.iterdir()):  # results are flat
        files[path.name] = {**_flushed(path), "compared": path.name in compared}
    data = json.dumps({**manifest, "files": files}, indent=1, sort_keys=True, allow_nan=False).encode()
    with (directory / MANIFEST).open("xb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        failpoint("manifest.half")
        file.write(data[len(data) // 2 :])
        file.flush()
        os.fsync(file.fileno())
    sync_dir(directory)
    return data


def read_manifest(directory: Path) -> bytes | None:
    """Return the bytes of the manifest of *directory*, or None if there is none."""
    return read_file(directory / MANIFEST)  # None too where a file lies in the place of the directory


def _flushed(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": path.stat().st_size}
