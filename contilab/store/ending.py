"""How an attempt ends, and what its `.end` says. An attempt that was killed has none."""

import errno
import traceback
from typing import Any, Literal, get_args

from contilab.errors import ContilabError, EnvironmentFault

Kind = Literal["done", "released", "superseded", "failed", "env"]
KINDS: tuple[str, ...] = get_args(Kind)

TRACEBACK_CHARACTERS = 20_000  # the end of it, which names the cause; chosen

_ENVIRONMENT = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE)


def is_environment(error: BaseException) -> bool:
    """Whether *error* is a fault of the machine, which is not charged to the group."""
    return isinstance(error, EnvironmentFault) or (isinstance(error, OSError) and error.errno in _ENVIRONMENT)


def failed(error: BaseException) -> dict[str, str]:
    """Return what `.end failed` says of an exception from training: class, text and traceback."""
    name = type(error).__qualname__ if isinstance(error, ContilabError) else _qualified(type(error))
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
    return {"class": name, "text": _encodable(str(error)), "traceback": _encodable(trace)}


def environment(error: BaseException) -> dict[str, Any]:
    """Return what `.end env` says of a fault of the machine: class, text, errno and path."""
    facts: dict[str, Any] = {"class": _qualified(type(error)), "text": _encodable(str(error))}
    if isinstance(error, OSError) and error.errno is not None:
        facts["errno"] = errno.errorcode.get(error.errno, str(error.errno))
        facts["path"] = _encodable(str(error.filename or ""))
    return facts


def _qualified(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()  # messages may hold file names that are not UTF-8
