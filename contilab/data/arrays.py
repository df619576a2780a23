"""A data set of one's own as arrays in one .npz or .safetensors file.

Four arrays: `train_inputs`, `train_labels`, `test_inputs`, `test_labels` (Keras' names `x_train`, `y_train`, ... are understood
too). Inputs are uint8 pictures [N, C, H, W] (a last axis of 1 or 3 values is taken for the channels and moved) or floats of any
shape, which are kept as float32. Labels are integers 0, 1, ..., each used in training. An .npz file is read without numpy's
loader: a header cannot ask for more memory than the file has bytes for, and pickled objects are refused.
"""

import io
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from contilab.data import labels
from contilab.data.archive import content_of
from contilab.data.contract import Dataset
from contilab.errors import DataError

NAMES = ("train_inputs", "train_labels", "test_inputs", "test_labels")
ALIASES = {"x_train": NAMES[0], "y_train": NAMES[1], "x_test": NAMES[2], "y_test": NAMES[3]}
LIMIT_BYTES = 64 * 2**30  # chosen: what unpacks to more fits into few machines
MOST_CLASSES = 32_768  # predictions are recorded as int16
ENDS = (".npz", ".safetensors")
HINT = f"expected the arrays {', '.join(NAMES)}: uint8 or float inputs [N, ...], integer labels [N] from 0 on"
FAILURES = (
    OSError, ValueError, KeyError, IndexError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, RuntimeError,
    NotImplementedError, RecursionError, zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip

Arrays = Mapping[str, NDArray[np.generic]]


def read_arrays(path: Path, name: str) -> Dataset:
    """Return the data set *name* in the .npz or .safetensors file *path*; DataError, with the reason, if it is none."""
    from safetensors import SafetensorError

    try:
        arrays = _npz(path) if path.suffix == ".npz" else _safetensors(path)
        return _dataset(name, {ALIASES.get(key, key): array for key, array in arrays.items()})
    except (*FAILURES, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(str(path), f"is no data set: {reason}", hint=HINT) from error


def _safetensors(path: Path) -> Arrays:
    from safetensors.numpy import load

    return load(path.read_bytes())


def _npz(path: Path) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if sum(entry.file_size for entry in entries.values()) > LIMIT_BYTES:
            raise ValueError(f"it unpacks to more than {LIMIT_BYTES:,} bytes")
        wanted = {name: entry for name, entry in entries.items() if name in (*NAMES, *ALIASES)}
        return {name: _npy(content_of(archive, entry), name) for name, entry in wanted.items()}


def _npy(content: bytes, name: str) -> NDArray[np.generic]:
    """Return the array in the bytes of an .npy file."""
    file = io.BytesIO(content)
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


def _dataset(name: str, arrays: Arrays) -> Dataset:
    if missing := [key for key in NAMES if key not in arrays]:
        raise ValueError(f"{', '.join(missing)} not found among {', '.join(sorted(arrays)[:8]) or 'no arrays'}")
    train, test = _inputs(arrays[NAMES[0]], NAMES[0]), _inputs(arrays[NAMES[2]], NAMES[2])
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise ValueError(f"training inputs are {_kind(train)} and test inputs {_kind(test)}, expected one type and shape")
    if words := [key for key in (NAMES[1], NAMES[3]) if arrays[key].ndim == 0 or arrays[key].dtype.kind not in "iufb"]:
        raise ValueError(f"{words[0]} are {_kind(arrays[words[0]])}, expected one integer for each input")
    classes = 1 + int(max((array.max() for array in (arrays[NAMES[1]], arrays[NAMES[3]]) if array.size), default=-1))
    if classes > MOST_CLASSES:
        raise ValueError(f"labels go up to {classes - 1}, expected less than {MOST_CLASSES}")
    targets = [_labels(arrays[key], key, len(inputs), classes) for key, inputs in ((NAMES[1], train), (NAMES[3], test))]
    if len(absent := np.flatnonzero(np.bincount(targets[0], minlength=classes) == 0)):
        raise ValueError(f"no training sample has the label {absent[0]}, expected each of 0 to {classes - 1}")
    pairs = ((train, targets[0]), (test, targets[1]))
    parts = [(torch.from_numpy(np.require(inputs, requirements=("C", "W"))), torch.from_numpy(own)) for inputs, own in pairs]
    return Dataset(name, *parts[0], *parts[1], classes)


def _inputs(array: NDArray[np.generic], key: str) -> NDArray[np.generic]:
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{key} are {_kind(array)}, expected [N, ...] with at least one value")
    if array.dtype == np.uint8:
        is_last = array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3)
        return np.moveaxis(array, 3, 1) if is_last else array
    if array.dtype.kind != "f":
        raise ValueError(f"{key} are {_kind(array)}, expected uint8 or floats")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused just below
        values = array.astype(np.float32)
    if len(bad := np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(1))):
        raise ValueError(f"{key} at index {bad[0]} are not all finite in float32")
    return values


def _labels(array: NDArray[np.generic], key: str, samples: int, classes: int) -> NDArray[np.int64]:
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array  # Keras keeps a second axis
    if len(flat) != samples:
        raise ValueError(f"{key} are {len(flat)} labels for {samples} inputs")
    try:
        return labels.checked(flat, classes)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _kind(array: NDArray[np.generic]) -> str:
    return f"{array.dtype} of shape {list(array.shape)}"
