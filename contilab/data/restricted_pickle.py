"""Reading the pickles of CIFAR's python version without running anything that is in them.

A pickle is a program: it may call whatever it can import. Here only the names of a numpy array may be asked for, each becomes
an inert `_Name`, and calling one only records the arguments: no code of numpy sees the file either. Before that every opcode
is looked at, since some would make the unpickler reserve gigabytes for a file of ten bytes.
"""

import io
import pickle
import pickletools
import struct
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALLOWED = {
    (module, name)
    for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
    for name in ("_reconstruct", "ndarray", "dtype", "_frombuffer")
} | {("_codecs", "encode")}  # how Python 3 writes bytes in the older protocols
REFUSED = frozenset({"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"})
MOST_MEMOS = 2**20  # CIFAR's files have at most some 100 thousand
MOST_DIGITS = 20  # of an integer written out: long ones take quadratic time
FAILURES = (
    pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, MemoryError, OverflowError,
    RecursionError, struct.error,
)  # fmt: skip


def load(content: bytes) -> dict[str, Any]:
    """Return the table that the pickle *content* holds, its arrays as numpy arrays and its keys as text.

    Raises ValueError, with what is wrong in one clause, for anything else, and for a pickle that asks for any other name.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in text that is damaged
            _inspect(content)
            found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise ValueError(f"the pickle holds a {type(found).__name__}, not a table")
        return {_text(key): _plain(value) for key, value in found.items()}
    except _Hostile as error:
        raise ValueError(str(error)) from error
    except FAILURES as error:
        raise ValueError(f"the pickle cannot be read: {error or type(error).__name__}") from error


class _Hostile(Exception):
    """Raised for a pickle that asks for more than data."""


class _Name:
    """A name that a pickle asked for. Calling it runs nothing: it gives a `_Call`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: object) -> "_Call":
        return _Call(self.name, arguments)

    def __setstate__(self, state: object) -> None:
        raise ValueError(f"the pickle changes {self.name}")


class _Call:
    """A call that a pickle asked for, and the state it gave the result."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise _Hostile(
                f'the pickle asks for "{module}.{name}", which is no data: it may be hostile, and nothing of it was run'
            )
        return _Name(name)

    def persistent_load(self, _pid: object) -> Any:
        raise _Hostile("the pickle refers to objects outside of itself")


def _inspect(content: bytes) -> None:
    """Raise ValueError for opcodes that data do not need, and for arguments that would take memory or time."""
    for opcode, argument, _place in pickletools.genops(content):
        if opcode.name in REFUSED:
            raise _Hostile(
                f"the pickle makes objects ({opcode.name}), which is no data: it may be hostile, and nothing of it was run"
            )
        if "PUT" in opcode.name and int(argument or 0) > MOST_MEMOS:
            raise ValueError(f"it wants to remember more than {MOST_MEMOS} things")
        if opcode.name in ("LONG4", "LONG", "INT", "LONG1") and len(str(abs(int(argument or 0)) >> 64)) > MOST_DIGITS:
            raise ValueError("it holds an integer of too many digits")


def _text(key: object) -> str:
    if isinstance(key, _Call) and key.name == "encode":  # bytes, as Python 3 writes them in the older protocols
        key = _bytes(key)
    if isinstance(key, bytes):
        return key.decode("utf-8")
    if not isinstance(key, str):
        raise ValueError(f"a key is of type {type(key).__name__}")
    return key


def _plain(value: Any) -> Any:
    return _array(value) if isinstance(value, _Call) and value.name in ("_reconstruct", "_frombuffer") else value


def _array(call: _Call) -> NDArray[np.generic]:
    """Return the array that *call* would make, after checking what it says of itself."""
    if call.name == "_frombuffer":
        data, dtype, shape, order = call.arguments
        is_fortran = order == "F"
    else:
        _version, shape, dtype, is_fortran, data = call.state
    content, kind = _bytes(data), _dtype(dtype)
    if not (isinstance(shape, tuple) and all(isinstance(size, int) and 0 <= size <= len(content) for size in shape)):
        raise ValueError("the shape of an array is no tuple of sizes that its bytes could have")
    array = np.frombuffer(content, kind)
    if is_fortran:
        return array.reshape(shape[::-1]).T
    return array.reshape(shape)


def _dtype(call: Any) -> np.dtype[np.generic]:
    """Return the type of numbers that *call* names: an integer type, in the byte order of its state."""
    name = call.arguments[0] if isinstance(call, _Call) and call.name == "dtype" and call.arguments else None
    name = name.decode("latin-1") if isinstance(name, bytes) else name
    if not isinstance(name, str) or name.lstrip("<>|=") not in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
        raise ValueError("an array is not of integers" + (f' but of "{name[:20]}"' if isinstance(name, str) else ""))
    order = call.state[1] if isinstance(call.state, tuple) and len(call.state) > 1 else "|"
    order = order.decode("latin-1") if isinstance(order, bytes) else order
    return np.dtype(name).newbyteorder(">" if order == ">" or name.startswith(">") else "<")


def _bytes(data: Any) -> bytes:
    if isinstance(data, _Call) and data.name == "encode":
        data = data.arguments[0].encode("latin-1")
    if not isinstance(data, bytes | bytearray):
        raise ValueError(f"the values of an array are a {type(data).__name__}, not bytes")
    return bytes(data)
