"""How people are told of a fault of the environment: a disk, data or a device that failed."""

import errno
import os
from pathlib import Path

from contilab.errors import DataError, EnvironmentFault, Fault
from contilab.store.ending import is_lost_device

_WAY_OUT = {
    errno.ENOSPC: "free space on the file system of the store, then run again: finished runs are kept",
    errno.EDQUOT: "raise the quota or free space, then run again: finished runs are kept",
    errno.EROFS: "mount the store writable, then run again",
    errno.EACCES: 'run as the owner of the store (in a container: user: "UID:GID") or share it with a group',
}


def fault_of(error: BaseException, place: str) -> Fault:
    """Return *error* as one sentence with its place and the way out."""
    if isinstance(error, EnvironmentFault | DataError):
        return error.faults[0]
    if is_lost_device(error):
        return Fault(
            place, f"the device failed: {str(error).splitlines()[0]}", "check the device, then run again: nothing is lost"
        )
    if isinstance(error, PermissionError) and error.filename:
        return Fault(str(error.filename), f"{error.strerror}; {_uids(Path(error.filename))}", _WAY_OUT[errno.EACCES])
    return Fault(place, str(error), _WAY_OUT.get(getattr(error, "errno", None) or 0, "look at the disk, then run again"))


def _uids(path: Path) -> str:
    there = next(one for one in (path, *path.parents) if one.exists())
    return f"{there} belongs to uid {there.stat().st_uid}, own uid {os.getuid()}"
