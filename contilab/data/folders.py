"""Where the files of an image set are: the user's folders, those of the system, the cache; what is in none is downloaded.

A folder is named by its content, not trusted by its name: MNIST and Fashion-MNIST use the same file names, so a folder whose
training labels are those of another published set is passed over. A folder that holds only some of the files, or damaged ones,
is refused rather than passed over: silently taking other data than those the user put there would be worse.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from contilab.data.download import fetch
from contilab.data.idx_file import KnownFile, read
from contilab.data.image_set import ImageSet
from contilab.errors import DataError


def locate(images: ImageSet, environ: Mapping[str, str], others: Sequence[ImageSet] = ()) -> list[Path]:
    """Return the paths of the four files of *images*; DataError if they can neither be found nor downloaded.

    Reads CONTILAB_DATA (folders, separated like PATH) and CONTILAB_CACHE from *environ*; *others*: sets to tell apart.
    """
    foreign = {other.files[1].sha256 for other in others} - {images.files[1].sha256}
    searched = list(_searched(images, environ))
    for folder in searched:
        found = {known: path for known in images.files if (path := _file(folder, known))}
        if found and not _is_foreign(found.get(images.files[1]), images.files[1], foreign):
            return _complete(folder, found, images)
    cache = cache_folder(environ) / "data" / images.name
    return [_file(cache, known) or fetch(known, images.mirrors, cache, searched=[*searched, cache]) for known in images.files]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where contilab keeps what can be had again: CONTILAB_CACHE, or `contilab` in the user's cache.

    A user without an account or home (a container started under a bare uid) gets a folder among the temporary files.
    """
    if own := environ.get("CONTILAB_CACHE"):
        return Path(own)
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "contilab"
    home = environ.get("HOME", "")
    if home and os.access(home, os.W_OK):
        return Path(home) / ".cache" / "contilab"
    return Path(tempfile.gettempdir()) / f"contilab-{os.getuid()}"


def _searched(images: ImageSet, environ: Mapping[str, str]) -> Iterator[Path]:
    for base in filter(None, environ.get("CONTILAB_DATA", "").split(os.pathsep)):
        yield from (Path(base) / name for name in images.folders)
        yield Path(base)
    yield from images.system


def _file(folder: Path, known: KnownFile) -> Path | None:
    """Return the file *known* in *folder*, raw or packed, if it is there; older copies have a dot before "idx"."""
    for name in (known.name, known.name.replace("-idx", ".idx")):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


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
