"""A data set of one's own as arrays in one .npz or .safetensors file.

Four arrays: `train_inputs`, `train_labels`, `test_inputs`, `test_labels` (Keras' names `x_train`, `y_train`, ... are understood
too). Inputs are uint8 pictures [N, C, H, W] (a last axis of 1 or 3 values is taken for the channels and moved), gray ones also
[N, H, W], or floats of any shape, which are kept as float32. Labels are integers 0, 1, ..., each used in training. An .npz
file is read without numpy's loader: a header cannot ask for more memory than the file has bytes for, and pickled objects are
refused.
"""

import io
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from contilab.data import labels
from contilab.data.archive import unpacked
from contilab.data.contract import Dataset
from contilab.data.room import Left, check_room, without_limit
from contilab.errors import DataError

NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")
INPUTS, LABELS = NAMES[::2], NAMES[1::2]
ALIASES = {"x_train": NAMES[0], "y_train": NAMES[1], "x_test": NAMES[2], "y_test": NAMES[3]}
LIMIT_BYTES = 64 * 2**30  # that an .npz may unpack to, whatever memory there is; chosen
MOST_HEADER = 2**17  # bytes of an .npy file in which its header ends; numpy itself reads none of more than 10,000
ENDS = (".npz", ".safetensors")
LARGE = "keep them as uint8 or float32, or import fewer of them"
HINT = f"expected the arrays {', '.join(NAMES)}: uint8 or float inputs [N, ...], integer labels [N] from 0 on"
FAILURES = (
    OSError, ValueError, KeyError, IndexError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, RuntimeError,
    NotImplementedError, RecursionError, zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip

Arrays = Mapping[str, NDArray[np.generic]]
Room = Callable[[int], None]  # raises DataError unless that many bytes of memory are left


def is_file_of_arrays(path: Path) -> bool:
    """Return whether *path* is a file whose name says that it holds arrays."""
    return path.suffix.lower() in ENDS and path.is_file()


def read_arrays(path: Path, name: str, left: Left = without_limit) -> Dataset:
    """Return the data set *name* in the .npz or .safetensors file *path*; DataError, with the reason, if it is none.

    left(): the bytes of memory that may still be taken; arrays that take more are refused before they are read.
    """
    from safetensors import SafetensorError

    def room(needed: int) -> None:
        check_room(str(path), "its arrays", needed, left, hint=LARGE)

    try:
        return _dataset(name, (_npz if path.suffix.lower() == ".npz" else _safetensors)(path, room))
    except (*FAILURES, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(str(path), f"is no data set: {reason}", hint=HINT) from error


def _safetensors(path: Path, room: Room) -> Arrays:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        keys = _keys(list(file.keys()))
        room(path.stat().st_size)
        return {name: _inputs_or_labels(file.get_tensor(key), name, room) for name, key in keys.items()}


def _npz(path: Path, room: Room) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        names = [entry.filename.removesuffix(".npy") for entry in archive.infolist()]
        entries = {name: archive.infolist()[names.index(key)] for name, key in _keys(names).items()}
        if (total := sum(entry.file_size for entry in entries.values())) > LIMIT_BYTES:
            raise ValueError(f"its arrays unpack to {total:,} bytes, expected at most {LIMIT_BYTES:,}")
        room(total)
        return {name: _inputs_or_labels(_npy(unpacked(archive, entry), name), name, room) for name, entry in entries.items()}


def _keys(there: Sequence[str]) -> dict[str, str]:
    """Return what each array that is needed is called among those that are *there*."""
    found = {name: [key for key in there if ALIASES.get(key, key) == name] for name in NAMES}
    if missing := [name for name, keys in found.items() if not keys]:
        shown = ", ".join(key[:40] for key in sorted(there)[:8])
        raise ValueError(f"{', '.join(missing)} not found among {shown or 'no arrays'}")
    if twice := next((keys for keys in found.values() if len(keys) > 1), None):
        raise ValueError(f"{' and '.join(twice)} are two arrays for one thing, and one of them would be lost")
    return {name: key for name, (key,) in found.items()}


def _npy(content: bytearray, name: str) -> NDArray[np.generic]:
    """Return the array in the bytes of an .npy file."""
    file = io.BytesIO(memoryview(content)[:MOST_HEADER])
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is written in version {version} of the .npy format, expected 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that Python 2 wrote, which numpy reads all the same
        shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, expected numbers")
    array = np.frombuffer(content, dtype, offset=file.tell())
    return array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)


def _inputs_or_labels(array: NDArray[np.generic], name: str, room: Room) -> NDArray[np.generic]:
    """Return *array* as it is if it holds labels, and otherwise ready to be kept: so memory holds one other form at a time."""
    return _inputs(array, name, room) if name in INPUTS else array


def _dataset(name: str, arrays: Arrays) -> Dataset:
    train, test = (arrays[key] for key in INPUTS)
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise ValueError(f"training inputs are {_kind(train)} and test inputs {_kind(test)}, expected one type and shape")
    targets = [_labels(arrays[key], key, len(inputs)) for key, inputs in zip(LABELS, (train, test), strict=True)]
    classes = 1 + max(int(own.max()) for own in targets)
    if len(absent := np.flatnonzero(np.bincount(targets[0], minlength=classes) == 0)):
        raise ValueError(f"no training sample has the label {absent[0]}, expected each of 0 to {classes - 1}")
    parts = [(torch.from_numpy(inputs), torch.from_numpy(own)) for inputs, own in zip((train, test), targets, strict=True)]
    return Dataset(name, *parts[0], *parts[1], classes)


def _inputs(array: NDArray[np.generic], key: str, room: Room) -> NDArray[np.generic]:
    """Return inputs [N, ...] as they are kept: uint8 or float32, in C order, and writable."""
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{key} are {_kind(array)}, expected [N, ...] with at least one value")
    if array.dtype != np.uint8 and array.dtype.kind != "f":
        raise ValueError(f"{key} are {_kind(array)}, expected uint8 or floats")
    kind = np.dtype(np.uint8 if array.dtype == np.uint8 else np.float32)
    is_last = kind == np.uint8 and array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3)
    view = np.moveaxis(array, 3, 1) if is_last else array
    if view.dtype != kind or not view.flags.c_contiguous:
        room(view.size * kind.itemsize)
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused just below
        values: NDArray[np.generic] = np.require(view, kind, ("C", "W", "A"))
    if kind != np.uint8 and len(bad := np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(1))):
        raise ValueError(f"{key} at index {bad[0]} are not all finite in float32")
    return values


def _labels(array: NDArray[np.generic], key: str, samples: int) -> NDArray[np.int64]:
    if array.ndim == 0 or array.dtype.kind not in "iufb":
        raise ValueError(f"{key} are {_kind(array)}, expected one integer for each input")
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array  # Keras keeps a second axis
    if len(flat) != samples:
        raise ValueError(f"{key} are {len(flat)} labels for {samples} inputs")
    try:
        return labels.checked(flat, labels.MOST_CLASSES)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _kind(array: NDArray[np.generic]) -> str:
    return f"{str(array.dtype)[:40]} of shape {list(array.shape)}"
