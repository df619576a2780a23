"""Which exceptions are the fault of the environment: charged to the runner, never to the group.

Source of the list of errors: section 8 of the protocol of the store.
"""

import errno

from contilab.errors import DataError, EnvironmentFault, Fault

ENVIRONMENT = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)
_LOST_DEVICE = (
    "CUDA error",
    "CUDA driver error",
    "no CUDA-capable device",
)  # torch raises a plain RuntimeError for all of them


def is_environment(error: BaseException) -> bool:
    """Tell whether *error* says that the disk, the data or the device failed, and not the training."""
    return isinstance(error, EnvironmentFault | DataError) or _is_disk(error) or is_lost_device(error)


def is_lost_device(error: BaseException) -> bool:
    """Tell whether *error* says that the GPU is gone, so that no group can succeed in this process.

    Running out of device memory is no such error: the next group may fit.
    """
    text = str(error)
    return isinstance(error, RuntimeError) and "out of memory" not in text and any(sign in text for sign in _LOST_DEVICE)


def facts_of(error: BaseException) -> dict[str, object]:
    """Return what the end of an attempt records of *error*: class, text, and errno and path where it has them."""
    facts: dict[str, object] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, OSError):
        facts |= {"errno": errno.errorcode.get(error.errno or 0, str(error.errno)), "path": str(error.filename or "")}
    return facts


def fault_of(error: BaseException, place: str) -> Fault:
    """Return *error* as one sentence with its place and the way out."""
    if isinstance(error, EnvironmentFault | DataError):
        return error.faults[0]
    if is_lost_device(error):
        return Fault(
            place, f"the device failed: {str(error).splitlines()[0]}", "check the device, then run again: nothing is lost"
        )
    return Fault(place, str(error), _WAY_OUT.get(getattr(error, "errno", None) or 0, "look at the disk, then run again"))


_WAY_OUT = {
    errno.ENOSPC: "free space on the file system of the store, then run again: finished runs are kept",
    errno.EDQUOT: "raise the quota or free space, then run again: finished runs are kept",
    errno.EROFS: "mount the store writable",
    errno.EACCES: 'run as the owner of the store (in a container: user: "UID:GID") or share it through a group',
    errno.EPERM: 'run as the owner of the store (in a container: user: "UID:GID") or share it through a group',
}


def _is_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in ENVIRONMENT
