"""Where the files of an image set are: the user's folders, those of the system, the cache; what is in none is downloaded.

A folder is named by its content, not trusted by its name: MNIST and Fashion-MNIST use the same file names, so a folder whose
training labels are those of another published set is passed over. A folder that holds only some of the files, or damaged ones,
is refused rather than passed over: silently taking other data than those the user put there would be worse.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from contilab.data.download import Progress, Remote, fetch, silent
from contilab.data.idx_file import SLACK_BYTES, KnownFile, read, unpack
from contilab.data.image_set import ImageSet
from contilab.disk.cache import cache_folder
from contilab.errors import DataError

HINT = (
    "contilab data import {} DIR takes the files you have; or name their folder in CONTILAB_DATA"
    " (several are separated like PATH)"
)


def locate(
    images: ImageSet, environ: Mapping[str, str], others: Sequence[ImageSet] = (), *, progress: Progress = silent
) -> list[Path]:
    """Return the paths of the four files of *images*; DataError if they can neither be found nor downloaded.

    Reads CONTILAB_DATA (folders, separated like PATH) and CONTILAB_CACHE from *environ*; *others*: sets to tell apart.
    """
    searched = [*_searched(images, environ), *images.system]
    if found := find(images, searched, others):
        return found
    cache = download_folder(images, environ)
    return [
        _file(cache, known)
        or fetch(_remote(known, images), cache, hint=HINT.format(images.name), searched=[*searched, cache], progress=progress)
        for known in images.files
    ]


def find(images: ImageSet, searched: Sequence[Path], others: Sequence[ImageSet] = ()) -> list[Path] | None:
    """Return the paths of the four files of *images* in the first folder of *searched* that has them; None if none has.

    Raises DataError if a folder has only some of them. A folder that holds one of the sets *others* is passed over.
    """
    foreign = {other.files[1].sha256 for other in others} - {images.files[1].sha256}
    for folder in searched:
        found = {known: path for known in images.files if (path := _file(folder, known))}
        if found and not _is_foreign(found.get(images.files[1]), images.files[1], foreign):
            return _complete(folder, found, images)
    return None


def download_folder(images: ImageSet, environ: Mapping[str, str]) -> Path:
    """Return where downloaded files of *images* are kept until they are read."""
    return cache_folder(environ) / "data" / images.name


def below(images: ImageSet, base: Path) -> list[Path]:
    """Return the folders at and below *base* in which the files of *images* may lie."""
    return [*(base / name for name in images.folders), base]


def _searched(images: ImageSet, environ: Mapping[str, str]) -> Iterator[Path]:
    for base in filter(None, environ.get("CONTILAB_DATA", "").split(os.pathsep)):
        yield from below(images, Path(base))


def _file(folder: Path, known: KnownFile) -> Path | None:
    """Return the file *known* in *folder*, raw or packed, if it is there; older copies have a dot before "idx"."""
    for name in (known.name, known.name.replace("-idx", ".idx")):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _remote(known: KnownFile, images: ImageSet) -> Remote:
    def check(path: Path) -> None:
        content = unpack(path.read_bytes(), known.size)
        found = hashlib.sha256(content).hexdigest()
        if found != known.sha256:
            raise ValueError(f"sent {len(content)} bytes with SHA-256 {found}, expected {known.size} bytes with {known.sha256}")

    urls = tuple(f"{mirror}{known.name}.gz" for mirror in images.mirrors)
    return Remote(f"{known.name}.gz", urls, known.size + SLACK_BYTES, check)


def _is_foreign(path: Path | None, known: KnownFile, foreign: set[str]) -> bool:
    try:
        return path is not None and read(path, known).sha256 in foreign
    except DataError:
        return False


def _complete(folder: Path, found: Mapping[KnownFile, Path], images: ImageSet) -> list[Path]:
    if missing := [known.name for known in images.files if known not in found]:
        has = ", ".join(path.name for path in found.values())
        hint = "each may also be compressed, with .gz at its end"
        raise DataError(str(folder), f"{images.name} is incomplete: {', '.join(missing)} not found beside {has}", hint=hint)
    return [found[known] for known in images.files]
