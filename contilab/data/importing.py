"""Taking data the user has into the cache, and getting published ones: `contilab data import` and `contilab data prepare`.

Content decides what data are. Files of a published set's form with other content are taken too, under a name that says so or
one the user gives; they have their own digest, so their runs have other addresses. What is malformed is refused, and nothing
of it stays in the cache.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from contilab.data import arrays
from contilab.data.batch_set import BatchSet, Reading, read_batches
from contilab.data.cache import Cache, Named, Shape, is_name, open_cache
from contilab.data.class_folders import read_folders
from contilab.data.contract import Dataset
from contilab.data.digest import digest_of
from contilab.data.download import Progress, fetch, forget, silent
from contilab.data.folder_set import FolderSet, read_folder_set
from contilab.data.folders import below, download_folder, find, locate
from contilab.data.image_set import ImageSet, read_alike, read_dataset
from contilab.data.published import IMAGE_SETS, KNOWN, KnownSet
from contilab.data.room import Left, without_limit
from contilab.errors import DataError, InputError, UsageError

OF_MACHINE = (errno.EIO, errno.ESTALE, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE)
IMPORT = "contilab data import {} DIR takes the files you have"


class Taken(NamedTuple):
    """What is in the cache now: the name it goes by, what that stands for, and where it was read ("" if it was there)."""

    name: str
    named: Named
    place: str
    replaced: str = ""  # the digest that the name stood for before, if it was another


def import_data(
    name: str,
    path: Path,
    environ: Mapping[str, str],
    *,
    own_name: str = "",
    size: int | None = None,
    left: Left = without_limit,
) -> Taken:
    """Take the data at *path* into the cache as *name*, a published set or a name of one's own.

    *own_name*: what to call files that have the form of the published set *name*. *size*: pixels that pictures are made.
    left(): the bytes of memory that may still be taken. Raises UsageError for names that cannot be, InputError if the files are
    not what they must be, and DataError if the cache cannot be written or memory is lacking.
    """
    _check_names(name, own_name)
    if not path.exists():
        raise InputError(str(path), "there is no such file or folder", hint="the second argument is where the data are")
    known, cache = KNOWN.get(name), open_cache(environ)
    with cache.alone(own_name or name):
        with _input():
            reading = read_known(known, path, size=size, left=left) if known else _read_own(name, path, size, left)
            _check_place(cache, name, reading, own_name)
        if size is not None and not reading.class_names:
            raise UsageError("data import --size", f"{reading.place} holds no files of pictures", hint="leave it out")
        return _kept(cache, name, reading, own_name)


def prepare(name: str, environ: Mapping[str, str], progress: Progress = silent, left: Left = without_limit) -> Taken:
    """Get the published set *name* into the cache: it is there, or lies in a folder of CONTILAB_DATA, or is downloaded.

    left(): the bytes of memory that may still be taken. Raises UsageError for a name that is none, DataError if it can neither
    be found nor downloaded, or memory is lacking.
    """
    if name not in KNOWN:
        raise UsageError("data prepare", f'"{name}" is no published set', hint=f"known: {', '.join(KNOWN)}")
    known, cache = KNOWN[name], open_cache(environ)
    with cache.alone(name):
        named = cache.named(name)
        if named and named.is_published and cache.has(named.digest):
            return Taken(name, named, "")
        reading = _gotten(known, cache, environ, progress, left)
        _check_place(cache, name, reading, "")
        return _kept(cache, name, reading, "")


@contextmanager
def _input() -> Iterator[None]:
    """Turn faults of the data into faults of the input: the user has just named them, and no environment lacks anything."""
    try:
        yield
    except DataError as error:
        if _is_of_machine(error.__cause__):
            raise
        fault = error.faults[0]
        raise InputError(fault.place, fault.problem, hint=fault.hint) from error


def _is_of_machine(cause: BaseException | None) -> bool:
    """Tell whether data could not be read for a fault of the machine, which says nothing about them."""
    return isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in OF_MACHINE)


def shape_of(known: KnownSet) -> Shape:
    """Return the shape of a published set, which is known without having it."""
    is_bytes = True  # all of them are
    return Shape(known.image_shape, is_bytes, known.classes, known.train_samples, known.test_samples)


def read_known(known: KnownSet, path: Path, *, size: int | None = None, left: Left = without_limit) -> Reading:
    """Return what the files at *path* hold, in one of the forms of *known*; DataError if it has none of its forms."""
    reading = _of_form(known, path, size, left)
    _check_form(known, reading)
    if isinstance(known, ImageSet) and digest_of(reading.dataset) == known.digest:
        return reading._replace(is_published=True)
    return reading


def _gotten(known: KnownSet, cache: Cache, environ: Mapping[str, str], progress: Progress, left: Left) -> Reading:
    if isinstance(known, ImageSet):
        paths = locate(known, environ, IMAGE_SETS, progress=progress)
        dataset = read_dataset(known, paths)
        for path in paths:
            if path.parent == download_folder(known, environ):
                forget(path)
        return Reading(dataset, is_published=True, place=str(paths[0].parent))
    searched = [Path(base) for base in filter(None, environ.get("CONTILAB_DATA", "").split(os.pathsep))]
    for base in searched:
        if any(place.exists() for place in _places(known, base)):
            return read_known(known, base, left=left)
    archive = fetch(known.remote, cache.downloads, hint=IMPORT.format(known.name), searched=searched, progress=progress)
    reading = read_known(known, archive, left=left)
    forget(archive)
    return reading._replace(is_published=True, place=known.remote.urls[0])  # its SHA-256 was checked


def _places(known: BatchSet | FolderSet, base: Path) -> list[Path]:
    """Return where below *base* a folder or archive of *known* may lie that is named as the published one."""
    folders = [base, *(base / folder for folder in known.folders)]
    if isinstance(known, FolderSet):
        return [*folders[1:], *(folder / known.remote.name for folder in folders)]
    return [folder / name for folder in folders for form in known.forms for name in (form.folder, *form.archives)]


def _of_form(known: KnownSet, path: Path, size: int | None, left: Left) -> Reading:
    if arrays.is_file_of_arrays(path):
        return Reading(arrays.read_arrays(path, known.name, left), is_published=False, place=str(path))
    if isinstance(known, ImageSet):
        paths = find(known, below(known, path)) if path.is_dir() else None
        if not paths:
            names = ", ".join(file.name for file in known.files)
            raise DataError(
                str(path), f"holds no files of {known.name}: expected {names}, also with .gz", hint="name their folder"
            )
        return Reading(read_alike(known, paths), is_published=False, place=str(paths[0].parent))
    if isinstance(known, BatchSet) and (reading := read_batches(known, path)):
        return reading
    if isinstance(known, FolderSet):
        return read_folder_set(known, path, size=size, left=left)
    try:
        read = read_folders(path, known.name, size=size, left=left)
    except DataError as error:
        fault = error.faults[0]
        if fault.place != str(path) or _is_of_machine(error.__cause__):
            raise
        forms = " or ".join(form.folder for form in known.forms)
        raise DataError(fault.place, f"holds no {known.name}: expected {forms}; as pictures, it {fault.problem}") from error
    return Reading(read.dataset, is_published=False, place=str(path), class_names=read.class_names)


def _check_form(known: KnownSet, reading: Reading) -> None:
    dataset = reading.dataset
    sizes = len(dataset.train_labels), len(dataset.test_labels)
    is_bytes = dataset.train_inputs.dtype == torch.uint8
    found, expected = Shape(tuple(dataset.train_inputs.shape[1:]), is_bytes, dataset.classes, *sizes), shape_of(known)
    if found != expected:
        problem = f"is not of the form of {known.name}: expected {expected.text}, found {found.text}"
        raise DataError(reading.place, problem, hint="data of one's own are imported under a name of their own")


def _read_own(name: str, path: Path, size: int | None, left: Left) -> Reading:
    if arrays.is_file_of_arrays(path):
        return Reading(arrays.read_arrays(path, name, left), is_published=False, place=str(path))
    read = read_folders(path, name, size=size, left=left)
    return Reading(read.dataset, is_published=False, place=str(path), class_names=read.class_names)


def _check_place(cache: Cache, name: str, reading: Reading, own_name: str) -> None:
    before = cache.named(own_name or name)
    if name in KNOWN and before and before.is_published and not reading.is_published:
        problem = f"the content is not the published one of {name}, which is in the cache under that name"
        raise DataError(reading.place, problem, hint="--as NAME keeps both")


def _kept(cache: Cache, name: str, reading: Reading, own_name: str) -> Taken:
    known, before = name if name in KNOWN else "", cache.named(own_name or name)
    shown = own_name or (name if reading.is_published or not known else f"{name} (not the published files)")
    digest = cache.put(reading.dataset)
    named = Named(shown, digest, known, reading.is_published, reading.class_names)
    if named != before:
        cache.point(own_name or name, named)
    replaced = before.digest if before and before.digest != digest else ""
    return Taken(own_name or name, named, reading.place, replaced)


def _check_names(name: str, own_name: str) -> None:
    reserved = (*KNOWN, "default", "digits", "synthetic")
    if own_name and (own_name in reserved or name not in KNOWN):
        problem = f'"{own_name}" cannot be the name of it' if name in KNOWN else f'"{name}" is a name of your own already'
        raise UsageError(
            "data import --as", problem, hint="--as gives files in the form of a published set a name of their own"
        )
    for text in (name, own_name) if own_name else (name,):
        if not is_name(text) or text in ("default", "digits", "synthetic"):
            hint = f"known: {', '.join(KNOWN)}; own: 1 to 40 of a-z, 0-9, dot, underscore and hyphen, a letter or digit first"
            raise UsageError("data import", f'"{text[:60]}" cannot be the name of imported data', hint=hint)


def load_published(images: ImageSet, environ: Mapping[str, str]) -> Dataset:
    """Return the published *images*: from the cache, or from their files, which are then cached if that can be done."""
    cache = open_cache(environ)
    with cache.alone(images.name):
        if not cache.has(images.digest):
            reading = _gotten(images, cache, environ, silent, without_limit)
            try:
                cache.put(reading.dataset)
            except DataError:
                return reading.dataset  # a cache that cannot be written costs time and no truth
    return cache.load(images.digest, images.name)
