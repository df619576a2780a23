"""An IDX file on disk, raw or gzip-compressed, read against what is known of the published one.

A published file is known by the size and SHA-256 of its unpacked content: the compressed wrapper differs between mirrors. Every
refusal is one sentence with the file, both sizes and both digests, so a reader can tell a cut download from a foreign file.
"""

import gzip
import hashlib
import io
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contilab.data.idx import parse
from contilab.errors import DataError

PACKED = b"\x1f\x8b"  # the first bytes of gzip data
SLACK_BYTES = 2**20  # above the published size; labels of a wider integer type fit in
HINT = "replace or remove that file; CONTILAB_DATA names the folders that are searched first"


class KnownFile(NamedTuple):
    """One published file: its name without `.gz`, and size (bytes) and SHA-256 of its unpacked content."""

    name: str
    size: int
    sha256: str


class IdxFile(NamedTuple):
    """A file that is one IDX array: where it is, its unpacked content and the array."""

    path: Path
    known: KnownFile
    content: bytes
    array: NDArray[np.generic]

    @property
    def sha256(self) -> str:
        """The SHA-256, in hex, of the unpacked content."""
        return hashlib.sha256(self.content).hexdigest()

    def refusal(self, problem: str) -> DataError:
        """Return the error that refuses this file because of *problem*."""
        return refusal(self.path, problem, self.known, len(self.content), self.sha256)


def read(path: Path, known: KnownFile) -> IdxFile:
    """Read *path*, unpacking it if its name ends in `.gz`; DataError if it is not exactly one IDX array."""
    content = _unpacked(path, known)
    try:
        array = parse(content)
    except ValueError as error:
        raise refusal(path, str(error), known, len(content), hashlib.sha256(content).hexdigest()) from error
    return IdxFile(path, known, content, array)


def unpack(packed: bytes, limit: int) -> bytes:
    """Return what the gzip data *packed* hold; ValueError if they are damaged, cut, or hold more than *limit* bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(limit + 1)  # one more than allowed: the end, and so the check sum behind it, is always read
    except EOFError as error:
        raise ValueError("the gzip data end early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"the gzip data are damaged ({error})") from error
    if len(content) > limit:
        raise ValueError(f"the gzip data unpack to more than {limit} bytes")
    return content


def refusal(path: Path, problem: str, known: KnownFile, size: int, sha256: str, *, form: str = "") -> DataError:
    """Return the error that refuses *path*; *form* says what *size* and *sha256* were taken of, if not of unpacked content."""
    found = f"found {size} bytes{form} with SHA-256 {sha256}"
    return DataError(str(path), f"{problem}; expected {known.size} bytes with SHA-256 {known.sha256}, {found}", hint=HINT)


def _unpacked(path: Path, known: KnownFile) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(known.size + SLACK_BYTES + 1)
            if len(raw) > known.size + SLACK_BYTES:
                file.seek(0)
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                raise refusal(path, "the file is too large", known, file.tell(), sha256, form=" as stored")
    except OSError as error:
        raise DataError(str(path), f"cannot be read: {error.strerror or error}", hint=HINT) from error
    try:
        return _content(raw, known, is_packed=path.suffix == ".gz")
    except ValueError as error:
        raise refusal(path, str(error), known, len(raw), hashlib.sha256(raw).hexdigest(), form=" as stored") from error


def _content(raw: bytes, known: KnownFile, *, is_packed: bool) -> bytes:
    if not raw:
        raise ValueError("the file is empty")
    if not is_packed:
        if raw.startswith(PACKED):
            raise ValueError('the content is gzip-compressed, but the name does not end in ".gz"')
        return raw
    if not raw.startswith(PACKED):
        parse(raw)  # says what else it is, a web page for example
        raise ValueError('the name ends in ".gz", but the content is not compressed')
    return unpack(raw, known.size + SLACK_BYTES)
