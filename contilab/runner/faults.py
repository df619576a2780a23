"""How people are told of a fault of the environment: a disk, data or a device that failed."""

import errno
import os
import shutil
from pathlib import Path

from contilab.disk.nearest import nearest_there
from contilab.disk.reason import reason
from contilab.errors import EnvironmentFault, Fault, RefusedStart
from contilab.store.ending import is_lost_device

_WAY_OUT = {
    errno.ENOSPC: "free space on the file system of the store, then run again: finished runs are kept",
    errno.EDQUOT: "raise the quota or free space, then run again: finished runs are kept",
    errno.EROFS: "mount the store writable, then run again",
    errno.EACCES: 'run as the owner of the store (in a container: user: "UID:GID") or share it with a group',
}


def fault_of(error: BaseException, place: str) -> Fault:
    """Return *error* as one sentence with its place and the way out."""
    if isinstance(error, EnvironmentFault | RefusedStart):
        return error.faults[0]
    if is_lost_device(error):
        return Fault(
            place, f"the device failed: {str(error).splitlines()[0]}", "check the device, then run again: nothing is lost"
        )
    if isinstance(error, PermissionError) and error.filename:
        path = _denied(error)
        return Fault(str(path), f"{error.strerror}; {_uids(path)}", _WAY_OUT[errno.EACCES])
    if isinstance(error, OSError) and error.filename and error.errno == errno.ENOSPC:
        return Fault(str(error.filename), f"{error.strerror}, {_free(Path(error.filename))} free", _WAY_OUT[errno.ENOSPC])
    hint = _WAY_OUT.get(getattr(error, "errno", None) or 0, "look at the disk, then run again")
    if isinstance(error, OSError):
        return Fault(str(error.filename or place), reason(error), hint)
    return Fault(place, str(error), hint)


def _denied(error: PermissionError) -> Path:
    """Return which of the names of *error* was denied: a rename has two, and the second may be the cause."""
    paths = [Path(name) for name in (error.filename, error.filename2) if name]
    return next((path for path in paths if not os.access(nearest_there(path.parent), os.W_OK)), paths[0])


def _free(path: Path) -> str:
    return f"{shutil.disk_usage(nearest_there(path)).free / 2**20:.1f} MiB"


def _uids(path: Path) -> str:
    there = nearest_there(path)
    return f"{there} belongs to uid {there.stat().st_uid}, own uid {os.getuid()}"
