"""A published set of images in batch files, as CIFAR is: what is known of its forms beforehand, and the data set read from one.

A set is published in several forms (python and binary files), and each form is had as a folder or as the archive it came in.
Files of the right form whose content is another are read too; the reader says that they are not the published ones.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from contilab.data.archive import Member, members
from contilab.data.cifar import Parse, Part
from contilab.data.contract import Dataset
from contilab.data.download import Remote
from contilab.errors import DataError

MOST_EXTRA = 2**10  # bytes of a sample besides its pixels (chosen): label, file name, structure of the pickle
LIMIT_BYTES = 2**30  # that an archive may unpack to; chosen: five times what the published ones do
HINT = "replace or remove that file"


class BatchFile(NamedTuple):
    """A published file: its name, how many samples it holds, and the SHA-256 of its content."""

    name: str
    rows: int
    sha256: str


class Form(NamedTuple):
    """One published form: its folder, its archives, how a file is read, and its files."""

    folder: str
    archives: tuple[str, ...]
    parse: Parse
    train: tuple[BatchFile, ...]
    test: tuple[BatchFile, ...]

    @property
    def files(self) -> tuple[BatchFile, ...]:
        """All files, training first."""
        return (*self.train, *self.test)


class BatchSet(NamedTuple):
    """What is known of a published set; *remote*: where it is downloaded from, *folders*: below which its folder may lie."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    train_samples: int
    test_samples: int
    forms: tuple[Form, ...]
    remote: Remote
    folders: tuple[str, ...] = ()


class Reading(NamedTuple):
    """A data set, whether its content is the published one, where it was read, and the names of its classes if known."""

    dataset: Dataset
    is_published: bool
    place: str
    class_names: tuple[str, ...] = ()


def read_batches(known: BatchSet, path: Path) -> Reading | None:
    """Return the set *known* in the folder or archive *path*, or None if no file of it is there.

    Looks into the folder itself, folders below it that have the published names, and archives in it. Raises DataError, naming
    the file, if files are missing or damaged.
    """
    for place in _places(known, path):
        for form in known.forms:
            found = dict(_found(form, place))
            if found:
                return _read(known, form, place, found)
    return None


def _places(known: BatchSet, path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for base in (path, *(path / folder for folder in known.folders if (path / folder).is_dir())):
        yield base
        for form in known.forms:
            yield from (place for name in (form.folder, *form.archives) if (place := base / name).exists())


def _found(form: Form, place: Path) -> Iterator[tuple[BatchFile, Member]]:
    """Yield the files of *form* that lie in the folder or archive *place*; DataError if one of them is there twice."""
    known = {file.name: file for file in form.files}
    if place.is_dir():
        for file in form.files:
            if (place / file.name).is_file():
                limit = file.rows * (3072 + MOST_EXTRA) + 2**16
                yield from ((file, member) for member in members(place, file.name.__eq__, limit=limit))
        return
    seen: set[str] = set()
    for member in members(place, lambda name: name.rpartition("/")[2] in known, limit=LIMIT_BYTES):
        name = member.name.rpartition("/")[2]
        if name in seen:
            raise DataError(member.place, f'"{name}" lies twice in the archive', hint=HINT)
        seen.add(name)
        yield known[name], member


def _read(known: BatchSet, form: Form, place: Path, found: Mapping[BatchFile, Member]) -> Reading:
    if missing := [file.name for file in form.files if file not in found]:
        has = ", ".join(file.name for file in found)
        problem = f"{known.name} is incomplete: expected {', '.join(missing)} beside {has}, found nothing by that name"
        raise DataError(str(place), problem, hint="get all files of the set")
    is_published = all(_sha256(found[file].content) == file.sha256 for file in form.files)
    train, test = (_joined([_part(form, file, found[file]) for file in files]) for files in (form.train, form.test))
    return Reading(Dataset(known.name, *train, *test, known.classes), is_published, str(place))


def _part(form: Form, file: BatchFile, member: Member) -> Part:
    try:
        return _parsed(form, file, member.content)
    except ValueError as error:
        found = f"found {len(member.content)} bytes with SHA-256 {_sha256(member.content)}"
        problem = f"{error}; expected {file.name} with SHA-256 {file.sha256}, {found}"
        raise DataError(member.place, problem, hint=HINT) from error


def _parsed(form: Form, file: BatchFile, content: bytes) -> Part:
    images, labels = form.parse(content)
    if len(images) != file.rows:
        raise ValueError(f"the file holds {len(images):,} samples, not {file.rows:,}")
    return images, labels


def _joined(parts: list[Part]) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return torch.from_numpy(images), torch.from_numpy(labels)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
