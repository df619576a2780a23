"""How an attempt ends, and what its `.end` says. An attempt that was killed has none."""

import errno
import traceback
from typing import Any, Literal, get_args

from contilab.disk.reason import symbol
from contilab.errors import ContilabError, EnvironmentFault, InputError, RefusedStart

Kind = Literal["done", "released", "superseded", "cancelled", "failed", "failed-final", "env"]
KINDS: tuple[str, ...] = get_args(Kind)

TRACEBACK_CHARACTERS = 20_000  # the end of it, which names the cause; chosen

_ENVIRONMENT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE)
_LOST_DEVICE = (
    "CUDA error",
    "CUDA driver error",
    "no CUDA-capable device",
)  # torch raises a plain RuntimeError for all of them
# Of torch's allocators, and of the libraries that it calls on a GPU ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when").
_FULL_MEMORY = (
    "not enough memory", "out of memory", "can't allocate memory", "_alloc_failed", "unable to find an engine to execute",
)  # fmt: skip


def is_environment(error: BaseException) -> bool:
    """Whether *error* says that store, disk, data or device failed and not the training; it is not charged to the group."""
    if isinstance(error, OSError):
        return error.errno in _ENVIRONMENT
    return isinstance(error, EnvironmentFault | RefusedStart) or is_lost_device(error)


def is_final(error: BaseException) -> bool:
    """Whether *error* says that the code refuses the configuration, so that no attempt of any runner can succeed."""
    return isinstance(error, InputError)


def is_lost_device(error: BaseException) -> bool:
    """Whether *error* says that the GPU is gone, so that no group can succeed in this process.

    Running out of device memory is no such error: the next group may fit.
    """
    if not isinstance(error, RuntimeError) or tells_of_full_memory(error):
        return False
    return any(sign in str(error) for sign in _LOST_DEVICE)


def tells_of_full_memory(error: RuntimeError) -> bool:
    """Whether the text of a plain *error* of torch says that memory of the device or of the machine did not suffice."""
    text = str(error).lower()
    return any(sign in text for sign in _FULL_MEMORY)


def failed(error: BaseException) -> dict[str, str]:
    """Return what `.end failed` says of an exception from training: class, text and traceback."""
    name = type(error).__qualname__ if isinstance(error, ContilabError) else _qualified(type(error))
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
    return {"class": name, "text": _encodable(str(error)), "traceback": _encodable(trace)}


def environment(error: BaseException) -> dict[str, Any]:
    """Return what `.end env` says of a fault of the machine: class, text, errno and path."""
    facts: dict[str, Any] = {"class": _qualified(type(error)), "text": _encodable(str(error))}
    if isinstance(error, OSError) and error.errno is not None:
        facts["errno"] = symbol(error)
        facts["path"] = _encodable(str(error.filename or ""))
    return facts


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()  # messages may hold file names that are not UTF-8
