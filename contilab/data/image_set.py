"""A published set of images in four IDX files: what is known of it beforehand, and the data set read from the files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from contilab.data import labels
from contilab.data.contract import Dataset
from contilab.data.digest import digest_of
from contilab.data.idx_file import IdxFile, KnownFile, read
from contilab.errors import DataError


class ImageSet(NamedTuple):
    """What is known of a published set without having it.

    *files*: training images, training labels, test images, test labels. *digest*: of the data set (see `contilab.data.digest`).
    *folders*: names of its folder below a folder of data. *system*: where operating systems keep it. *mirrors*: addresses in
    front of `<file>.gz`.
    """

    name: str
    files: tuple[KnownFile, KnownFile, KnownFile, KnownFile]
    image_shape: tuple[int, int]
    train_samples: int
    test_samples: int
    classes: int
    digest: str
    folders: tuple[str, ...] = ()
    system: tuple[Path, ...] = ()
    mirrors: tuple[str, ...] = ()


def read_dataset(images: ImageSet, paths: Sequence[Path]) -> Dataset:
    """Return the data set in the four files *paths*; DataError, naming the file, unless they are exactly the published ones."""
    files = [read(path, known) for path, known in zip(paths, images.files, strict=True)]
    dataset = _dataset(images, files)
    found = digest_of(dataset)
    if found != images.digest:
        raise _foreign(images, files, found)
    return dataset


def read_alike(images: ImageSet, paths: Sequence[Path]) -> Dataset:
    """Return the data set in the four files *paths*, which may hold others of the same form; DataError if the form differs."""
    files = [read(path, known) for path, known in zip(paths, images.files, strict=True)]
    for file, rows in ((files[0], images.train_samples), (files[2], images.test_samples)):
        if file.array.ndim and len(file.array) != rows:
            raise file.refusal(f"the file holds {len(file.array):,} samples, not {rows:,}")
    return _dataset(images, files)


def _dataset(images: ImageSet, files: Sequence[IdxFile]) -> Dataset:
    train, test = _part(images, files[0], files[1]), _part(images, files[2], files[3])
    return Dataset(images.name, *_tensors(train), *_tensors(test), images.classes)


Part = tuple[NDArray[np.generic], NDArray[np.int64]]


def _part(images: ImageSet, inputs: IdxFile, targets: IdxFile) -> Part:
    height, width = images.image_shape
    if inputs.array.dtype != np.uint8 or inputs.array.shape[1:] != (height, width):
        found = f"{inputs.array.dtype} values of shape {list(inputs.array.shape)}"
        raise inputs.refusal(f"{found} are not uint8 images of {height} x {width} pixels")
    try:
        checked = labels.checked(targets.array, images.classes)
    except ValueError as error:
        raise targets.refusal(str(error)) from error
    if len(checked) != len(inputs.array):
        raise targets.refusal(f"{len(checked)} labels do not fit the {len(inputs.array)} images of {inputs.path}")
    return inputs.array, checked


def _tensors(part: Part) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(part[0]), torch.from_numpy(part[1])


def _foreign(images: ImageSet, files: Sequence[IdxFile], found: str) -> DataError:
    problem = f"the content is not the published one of {images.name}: the digest of the data is {found}, not {images.digest}"
    differing = next((file for file in files if file.sha256 != file.known.sha256), files[0])
    return differing.refusal(problem)
