"""A published set of pictures in folders of classes, as TinyImageNet is: what is known of it, and the data set read from it.

Its checksum is that of its archive: nobody has published one of the unpacked pictures. So only the archive itself can be told
to be the published one, and the same pictures in a folder count as others.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from contilab.data.batch_set import Reading
from contilab.data.class_folders import TESTS, read_folders
from contilab.data.download import Remote
from contilab.data.room import Left, without_limit


class FolderSet(NamedTuple):
    """What is known of the set; *remote*: its archive. *folders*: where its folder or archive lies below a folder of data."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    train_samples: int
    test_samples: int
    remote: Remote
    folders: tuple[str, ...] = ()
    tests: tuple[str, ...] = TESTS  # the folders that may hold test data


def read_folder_set(known: FolderSet, path: Path, *, size: int | None = None, left: Left = without_limit) -> Reading:
    """Return the set *known* in the folder or archive *path*; DataError if there are no pictures or one cannot be read."""
    place = next(_places(known, path))
    read = read_folders(place, known.name, size=size, tests=known.tests, left=left)
    return Reading(read.dataset, place.is_file() and size is None and _is_published(known, place), str(place), read.class_names)


def _places(known: FolderSet, path: Path) -> Iterator[Path]:
    if path.is_dir():
        names = (*known.folders, known.remote.name)
        yield from (place for name in names if (place := path / name).exists())
    yield path


def _is_published(known: FolderSet, archive: Path) -> bool:
    try:
        known.remote.check(archive)
    except ValueError:
        return False
    return True
