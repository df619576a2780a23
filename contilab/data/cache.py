"""The cache of data sets: content in `data/<digest>.safetensors`, and by what name it was imported in `data/names/<name>.json`.

A file is named by the digest of its content, arrives by one rename, and is mapped into memory, so runners on one machine share
its pages. Its digest is computed again whenever it is loaded: safetensors reads a flipped byte without a word. A name is
a pointer to a digest; a later import may move it, which changes no run that is planned: runs name the digest.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from torch import Tensor

from contilab.data.contract import Dataset
from contilab.data.digest import ARRAYS, digest_of
from contilab.disk.cache import cache_folder
from contilab.disk.lock import Lock
from contilab.disk.put_new import TEMP, temp_beside
from contilab.disk.read import names, read_table
from contilab.disk.replace import replace
from contilab.disk.sync import make_dir, sync_dir
from contilab.errors import DataError, StoreError

SCHEME = "contilab.cache/1"
END = ".safetensors"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")  # of an imported data set
HINT = "remove that file and import the data again: contilab data import NAME PATH"
WRITABLE = "CONTILAB_CACHE names the folder of the cache"
DTYPES = {"uint8": "U8", "float32": "F32", "float64": "F64", "int64": "I64"}  # as safetensors calls them
OLD_SECONDS = 86_400  # of what a killed process left; chosen: longer than any data set takes to write
WAIT_SECONDS = 5.0  # between two looks at whether another process has done the work


class Named(NamedTuple):
    """What a name stands for. *shown*: what tables call it. *of*: the published set whose form it has, or empty."""

    shown: str
    digest: str
    of: str
    is_published: bool
    class_names: tuple[str, ...] = ()


class Shape(NamedTuple):
    """What is known of a cached data set without reading its values."""

    input_shape: tuple[int, ...]
    is_bytes: bool  # inputs are uint8, otherwise float32
    classes: int
    train_samples: int
    test_samples: int

    @property
    def text(self) -> str:
        """What messages say of it."""
        sizes = " x ".join(str(size) for size in self.input_shape)
        kind = "uint8" if self.is_bytes else "float"
        return f"{self.train_samples:,} + {self.test_samples:,} {kind} inputs of {sizes} in {self.classes} classes"


class Cache:
    """The data sets below *root*."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "data"
        self.downloads = root / "data" / "downloads"

    def path(self, digest: str) -> Path:
        """Return where the data set *digest* is, or would be."""
        return self.folder / f"{digest}{END}"

    def has(self, digest: str) -> bool:
        """Return whether the data set *digest* is there."""
        return self.path(digest).is_file()

    def named(self, name: str) -> Named | None:
        """Return what *name* stands for; None if nothing was imported by that name."""
        table = read_table(self._name_file(name))
        try:
            return Named(
                table["shown"], table["digest"], table["of"], bool(table["is_published"]), tuple(table.get("class_names", ()))
            )
        except (KeyError, TypeError):
            return None

    def names(self) -> tuple[str, ...]:
        """Return the names of what was imported, sorted."""
        return tuple(name.removesuffix(".json") for name in names(self.folder / "names") if name.endswith(".json"))

    def digests(self) -> tuple[str, ...]:
        """Return the digests of all data sets that are kept, by whatever name or none, sorted."""
        return tuple(name.removesuffix(END) for name in names(self.folder) if name.endswith(END))

    def shape(self, digest: str) -> Shape:
        """Return the shape of the data set *digest*; DataError if it is not there or damaged."""
        with self._opened(digest) as file:
            slices = {name: file.get_slice(name) for name in ARRAYS}
            shapes = {name: tuple(each.get_shape()) for name, each in slices.items()}
            classes = int((file.metadata() or {})["classes"])
            is_bytes = slices["train_inputs"].get_dtype() == "U8"
        return Shape(shapes["train_inputs"][1:], is_bytes, classes, shapes["train_inputs"][0], shapes["test_inputs"][0])

    def test_labels(self, digest: str) -> Tensor:
        """Return the labels [N] of the test samples of the data set *digest*, unchecked; DataError as for its shape."""
        with self._opened(digest) as file:
            labels: Tensor = file.get_tensor("test_labels")
        return labels

    def load(self, digest: str, name: str) -> Dataset:
        """Return the data set *digest*, mapped into memory, under the name *name*; DataError if it is not there or damaged."""
        with self._opened(digest) as file:
            tensors = {array: file.get_tensor(array) for array in ARRAYS}
            classes = int((file.metadata() or {})["classes"])
        dataset = Dataset(name=name, **tensors, classes=classes)
        found = digest_of(dataset)
        if found != digest:
            raise DataError(
                str(self.path(digest)), f"the file is damaged: expected the digest {digest}, found {found}", hint=HINT
            )
        return dataset

    def put(self, dataset: Dataset) -> str:
        """Write *dataset* unless it is there whole, and return its digest; DataError if it cannot be written."""
        digest = digest_of(dataset)
        with suppress(DataError):
            self.load(digest, dataset.name)
            return digest
        path, needed = self.path(digest), sum(getattr(dataset, name).nbytes for name in ARRAYS)
        try:
            make_dir(self.folder)
            self._forget_left_over()
            if (free := shutil.disk_usage(self.folder).free) < needed:
                raise DataError(str(self.folder), f"no space left: needed {needed:,} bytes, free {free:,}", hint=WRITABLE)
            temp = temp_beside(path)
            try:
                _write(temp, dataset)
                temp.replace(path)
            finally:
                temp.unlink(missing_ok=True)
            sync_dir(self.folder)
        except OSError as error:
            raise self._unwritable(error) from error
        return digest

    def point(self, name: str, to: Named) -> None:
        """Let *name* stand for *to*, whatever it stood for; DataError if that cannot be written."""
        try:
            replace(self._name_file(name), json.dumps(to._asdict(), indent=1, sort_keys=True).encode())
        except OSError as error:
            raise self._unwritable(error) from error

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold the lock of *name*: what two processes would do at once is done once. Waits as long as another one works.

        Where locks do not work, or the cache can only be read, the two both do it, which costs time and no truth.
        """
        folder = self.folder / "locks"
        with suppress(OSError):  # a cache that cannot be written is found out by who writes into it
            make_dir(folder)
        lock = Lock(folder / f"{name}.lock")
        try:
            with suppress(StoreError):  # the file system is read-only: what is there can be used all the same
                while lock.acquire(WAIT_SECONDS) == "busy":
                    pass
            yield
        finally:
            lock.release()

    def _forget_left_over(self) -> None:
        """Remove what processes that were killed while they wrote have left here."""
        for path in self.folder.glob(f"{TEMP}*"):
            with suppress(OSError):  # another process has removed it
                if time.time() - path.stat().st_mtime > OLD_SECONDS:
                    path.unlink()

    def _name_file(self, name: str) -> Path:
        return self.folder / "names" / f"{name}.json"

    @contextmanager
    def _opened(self, digest: str) -> Iterator[Any]:
        path = self.path(digest)
        try:
            with safe_open(path, framework="pt") as file:
                yield file
        except FileNotFoundError as error:
            problem = f"the data with the digest {digest[:12]} are not in the cache"
            raise DataError(str(self.folder), problem, hint="import them: contilab data import NAME PATH") from error
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise DataError(str(path), f"the file is damaged: {error}", hint=HINT) from error

    def _unwritable(self, error: Exception) -> DataError:
        reason = getattr(error, "strerror", None) or str(error)
        return DataError(str(self.folder), f"cannot be written: {reason}", hint=WRITABLE)


def open_cache(environ: Mapping[str, str]) -> Cache:
    """Return the cache that *environ* names."""
    return Cache(cache_folder(environ))


def is_name(text: str) -> bool:
    """Return whether *text* can be the name of an imported data set."""
    return NAME.fullmatch(text) is not None


def _write(path: Path, dataset: Dataset) -> None:
    """Write *dataset* as a safetensors file, the same bytes every time, with the rights of the umask.

    safetensors' own writer gives 0600, which another user of a shared store cannot read, and orders its header by chance.
    """
    arrays = {name: np.ascontiguousarray(getattr(dataset, name).numpy()) for name in ARRAYS}
    header: dict[str, Any] = {"__metadata__": {"v": SCHEME, "classes": str(dataset.classes)}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that arrays begin at a multiple of their size
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.data)
        file.flush()
        os.fsync(file.fileno())
