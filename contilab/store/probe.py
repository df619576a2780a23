"""The probe: whether a directory can hold a store, tried before anything is claimed.

It does what the protocol does: create, write, fsync, link, link again, rename a directory onto a non-empty one, unlink. No
probe can certify `flock`, and on a full file system a lock is acquired while a record of one byte fails, so none is tried.
"""

import errno
import os
import shutil
from pathlib import Path

from contilab.disk.nearest import nearest_there
from contilab.disk.put_new import temp_beside
from contilab.disk.reason import reason
from contilab.disk.sync import make_dir, sync_dir, write_synced
from contilab.errors import StoreError

PROBE_BYTES = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT)


def probe(root: Path) -> None:
    """Try at *root*, which is made if missing, what the store needs; StoreError with path, reason and both uids."""
    try:
        make_dir(root)
        place = temp_beside(root / "probe")
        place.mkdir()
        try:
            problem = _missing_guarantee(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise StoreError(str(root), _sentence(root, error, "store"), hint=_way_out(error)) from error
    if problem:
        raise StoreError(str(root), problem, hint="use a local disk, a named volume or NFS; SMB cannot hold a store")


def check_writable(folder: Path, what: str = "store", *, hint: str = "") -> None:
    """Raise StoreError if nothing can be written at *folder*, a *what*, which need not be there yet.

    Far less than `probe` tries: one empty file. A full disk passes, since what follows may be small, or make space.
    """
    temp = temp_beside(nearest_there(folder) / "probe")
    try:
        write_synced(temp, b"")
        temp.unlink()
    except OSError as error:
        if error.errno not in _FULL:
            raise StoreError(str(folder), _sentence(folder, error, what), hint=hint or _way_out(error)) from error


def _missing_guarantee(place: Path) -> str:
    first, second = place / "first", place / "second"
    for directory in (first, second):
        directory.mkdir()
        write_synced(directory / "file", bytes(PROBE_BYTES))
        sync_dir(directory)
    (place / "name").hardlink_to(first / "file")
    try:
        (place / "name").hardlink_to(second / "file")
    except FileExistsError:
        pass
    else:
        return "a hard link replaced an existing name on this file system"
    try:
        first.rename(second)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return ""
        raise
    return "renaming a directory replaced a non-empty one on this file system"


def _sentence(root: Path, error: OSError, what: str) -> str:
    there = nearest_there(root)
    free = shutil.disk_usage(there).free
    return (
        f"the directory cannot hold a {what}: {reason(error)} at {error.filename or root}; "
        f"own uid {os.geteuid()}, owner uid {there.stat().st_uid}, {free / 2**20:.0f} MiB free"
    )


def _way_out(error: OSError) -> str:
    match error.errno:
        case errno.EROFS:
            return "mount the volume writable"
        case errno.ENOSPC | errno.EDQUOT:
            return "free some space there, or name another place with --store DIR"
        case errno.EACCES:
            return 'run as the owner of the directory (docker run --user "$(id -u):$(id -g)"), or make it writable'
        case errno.EPERM | errno.ENOTSUP:
            return "use a file system with hard links: a local disk, a named volume or NFS"
    return "name another place with --store DIR or CONTILAB_STORE"
