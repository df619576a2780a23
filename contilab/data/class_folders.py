"""A data set as a folder (or archive) of pictures, one folder per class: `train/CLASS/...` and `test/CLASS/...`.

`val`, `valid` or `validation` serve as test data where `test` has no class folders. TinyImageNet's own form is of that kind:
its validation pictures lie in one folder, and a file says the class of each. Where there are only class folders, every fifth
picture of a class, by name, is test data. Classes are numbered by name, and pictures follow class and name.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch

from contilab.data.archive import Member, members
from contilab.data.contract import Dataset
from contilab.data.labels import MOST_CLASSES
from contilab.data.pictures import ENDS, MOST_BYTES, Picture, decode
from contilab.data.room import Left, check_room, without_limit
from contilab.errors import DataError

TRAIN = "train"
TESTS = ("test", "val", "valid", "validation")
ANNOTATIONS = "val_annotations.txt"
LIMIT_BYTES = 8 * 2**30  # that an archive may unpack to, and its pictures too; chosen: larger ones are unpacked by hand
LOOK_BYTES = 2**26  # of pictures, after which memory is looked at again; chosen
SMALLER = "--size PIXELS makes them smaller"
HINT = "expected train/CLASS/*.png and test/CLASS/*.png (also jpg and others), or folders of classes only; or an .npz file"


class Key(NamedTuple):
    """Where a picture belongs: part, class and name; sorting by it is the order of the data set."""

    part: str
    label: str
    name: str


class Folders(NamedTuple):
    """What was read: the data set, and the names of its classes in the order of their labels."""

    dataset: Dataset
    class_names: tuple[str, ...]


def read_folders(
    path: Path, name: str, *, size: int | None = None, tests: Sequence[str] = TESTS, left: Left = without_limit
) -> Folders:
    """Return the data set *name* in the folder or archive *path*; pictures become *size* x *size* pixels if that is given.

    *tests*: the folders that may hold test data, the first that has class folders. left(): the bytes of memory that may be
    taken. Raises DataError if there are no pictures, if one cannot be read or has the place of another, if they take too much
    memory, if they differ in size, or if the classes of training and test data differ.
    """
    found: dict[Key, Picture] = {}
    classes_of: dict[str, str] = {}
    held = looked = 0
    is_grey = True
    for member in members(path, _is_wanted, limit=LIMIT_BYTES, each=MOST_BYTES):
        parts = PurePosixPath(member.name).parts
        if parts[-1] == ANNOTATIONS:
            classes_of |= _annotations(member)
        elif key := _key(parts):
            if key in found:
                problem = f'there are two pictures "{"/".join(filter(None, key))}", of which one would be lost'
                raise DataError(member.place, problem, hint="import each data set by itself")
            found[key] = decode(member.content, member.place, size=size)
            held += found[key].pixels.nbytes
            is_grey &= found[key].is_grey
            if held > LIMIT_BYTES and not path.is_dir():
                problem = f"its pictures take more memory than expected: at most {LIMIT_BYTES:,} bytes"
                raise DataError(str(path), problem, hint=f"unpack it and import the folder; or {SMALLER}")
            if held - looked >= LOOK_BYTES:
                looked = held  # put together they take as much again, until all are: what is freed of them goes nowhere else
                needed = held // 3 if is_grey else held  # only one of the three equal channels of grey ones is kept
                check_room(str(path), f"its first {len(found):,} pictures, put together,", needed, left, hint=SMALLER)
    parts_of = _sorted_out(path, _annotated(found, classes_of), tests)
    return _dataset(path, name, parts_of)


def _is_wanted(name: str) -> bool:
    last = name.rpartition("/")[2].lower()
    return last == ANNOTATIONS or (last.endswith(ENDS) and not last.startswith("."))


def _key(parts: tuple[str, ...]) -> Key | None:
    """Return the key of the picture at *parts*: the folder below the last of "train", "test", ... is its class."""
    places = [place for place, part in enumerate(parts[:-2]) if part.lower() in (TRAIN, *TESTS)]
    if places:
        return Key(parts[places[-1]].lower(), parts[places[-1] + 1], "/".join(parts[places[-1] + 2 :]))
    return Key("", parts[-2], parts[-1]) if len(parts) > 1 else None


def _annotations(member: Member) -> dict[str, str]:
    """Return the class of each picture that a file of lines "name<TAB>class..." names."""
    try:
        rows = [line.split("\t") for line in member.content.decode("utf-8").splitlines() if line.strip()]
        return {row[0]: row[1] for row in rows}
    except (UnicodeDecodeError, IndexError) as error:
        raise DataError(member.place, "expected lines of picture, tab and class, found others", hint=HINT) from error


def _annotated(found: dict[Key, Picture], classes_of: dict[str, str]) -> dict[Key, Picture]:
    if not classes_of:
        return found
    return {
        key._replace(label=classes_of.get(key.name, key.label)) if key.part == "val" else key: value
        for key, value in found.items()
    }


def _sorted_out(path: Path, found: dict[Key, Picture], tests: Sequence[str]) -> dict[str, dict[Key, Picture]]:
    """Return the pictures of the parts "train" and "test"."""
    if not found:
        raise DataError(str(path), "holds no pictures in folders of classes", hint=HINT)
    parts = {key.part for key in found}
    if TRAIN in parts:
        classes = {key.label for key in found if key.part == TRAIN}
        test = next((part for part in tests if {key.label for key in found if key.part == part} & classes), None)
        if test is None:
            raise DataError(str(path), f"has training pictures, but none of their classes in {' or '.join(tests)}", hint=HINT)
        return {part: {key: found[key] for key in found if key.part == own} for part, own in (("train", TRAIN), ("test", test))}
    if parts != {""}:
        raise DataError(str(path), f"has pictures in {', '.join(sorted(parts))}, and none in {TRAIN}", hint=HINT)
    fifth = {key for label in {key.label for key in found} for key in sorted(k for k in found if k.label == label)[4::5]}
    return {"train": {k: v for k, v in found.items() if k not in fifth}, "test": {k: found[k] for k in fifth}}


def _dataset(path: Path, name: str, parts: dict[str, dict[Key, Picture]]) -> Folders:
    classes = {part: sorted({key.label for key in pictures}) for part, pictures in parts.items()}
    names = classes["train"]
    if foreign := sorted(set(classes["test"]) - set(names)):
        raise DataError(str(path), f'the test data have the class "{foreign[0]}", which the training data lack', hint=HINT)
    if not parts["test"]:
        raise DataError(str(path), "no class has five pictures, so there are no test data", hint=HINT)
    if len(names) > MOST_CLASSES:
        raise DataError(
            str(path), f"has {len(names):,} classes, expected at most {MOST_CLASSES:,}", hint="import fewer of them"
        )
    first = next(iter(parts["train"].values()))
    channels = 1 if all(picture.is_grey for pictures in parts.values() for picture in pictures.values()) else 3
    arrays = [_array(path, parts[part], names, (channels, *first.pixels.shape[1:])) for part in ("train", "test")]
    return Folders(Dataset(name, *arrays[0], *arrays[1], len(names)), tuple(map(_printable, names)))


def _array(
    path: Path, pictures: dict[Key, Picture], names: list[str], shape: tuple[int, int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pictures [N, C, H, W] and their labels; empties *pictures*, so that memory holds each of them once."""
    place = {name: label for label, name in enumerate(names)}
    images, labels = np.empty((len(pictures), *shape), np.uint8), np.empty(len(pictures), np.int64)
    for index, key in enumerate(_in_order(pictures)):
        pixels = pictures.pop(key).pixels
        if pixels.shape[1:] != shape[1:]:
            problem = f'"{key.label}/{key.name}" has {_size(pixels.shape)} pixels, expected {_size(shape)} as the first one'
            raise DataError(str(path), problem, hint="--size PIXELS makes all pictures that size")
        images[index], labels[index] = pixels[: shape[0]], place[key.label]
    return torch.from_numpy(images), torch.from_numpy(labels)


def _in_order(pictures: dict[Key, Picture]) -> Iterator[Key]:
    return iter(sorted(pictures, key=lambda key: (key.label, key.name)))


def _printable(name: str) -> str:
    """Return *name* with what no terminal should get written out: bytes that are no text, ends of lines, control characters."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in name)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[-1]} x {shape[-2]}"
