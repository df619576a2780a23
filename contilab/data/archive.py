"""The files in a folder or archive, one after the other, in memory: nothing of an archive is ever written to the disk.

So nothing can be written outside; an archive that tries (names that lead out, links, devices) is refused all the same, with
all that is in it, and so is one that unpacks to more than a limit, which is counted while it is unpacked and not believed.
What unpacks to more than it says takes no memory for that either.
"""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from contilab.data.tar import Tar
from contilab.errors import DataError

MOST_MEMBERS = 1_000_000  # chosen: TinyImageNet has 120,609
PIECE = 2**20  # bytes that are unpacked at a time
BLOCK = 512  # bytes; of tar
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of the others zipfile unpacks all that it has read at once
HINT = "get the archive from where it is published, or unpack it yourself and import the folder"
FAILURES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, OverflowError, MemoryError,
    NotImplementedError, RuntimeError, IndexError, KeyError, TypeError,
)  # fmt: skip
ENDS = (".tar", ".tgz", ".gz", ".xz", ".bz2", ".zip")
GZIP, XZ, BZIP2 = b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh"  # how packed files begin

Wanted = Callable[[str], bool]


class Member(NamedTuple):
    """A file in a folder or archive: where it is, for messages; its name, parts separated by "/"; its content."""

    place: str
    name: str
    content: bytes


def members(path: Path, wanted: Wanted, *, limit: int, each: int | None = None) -> Iterator[Member]:
    """Yield the files in the folder or archive *path* whose names are *wanted*; of a folder in the order of names.

    *limit*: bytes that all files of an archive may unpack to. *each*: bytes that a wanted file may have, *limit* if not given.
    DataError, with file and reason, if it cannot be read, is damaged or cut, exceeds a limit, or tries to lead out.
    """
    most = limit if each is None else each
    try:
        if path.is_dir():
            yield from _of_folder(path, wanted, most)
            return
        if not path.is_file():
            raise _refusal(path, "is neither a file nor a folder")
        with path.open("rb") as file:
            yield from _of_archive(path, file, wanted, limit, most)
    except DataError:
        raise
    except OSError as error:  # that of a damaged gzip stream has no number
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from error
    except FAILURES as error:
        raise _refusal(path, f"the archive is damaged or cut: {str(error) or type(error).__name__}") from error


def _of_folder(folder: Path, wanted: Wanted, most: int) -> Iterator[Member]:
    for base, folders, files in os.walk(folder, onerror=_raise, followlinks=True):
        folders[:] = sorted(name for name in folders if not _is_loop(folder, Path(base, name)))
        for file in sorted(files):
            path = Path(base) / file
            name = path.relative_to(folder).as_posix()
            if not wanted(name) or not path.is_file():
                continue
            with path.open("rb") as opened:
                content = opened.read(most + 1)
            if len(content) > most:
                raise _large(str(path), most)
            yield Member(str(path), name, content)


def _is_loop(folder: Path, path: Path) -> bool:
    """Tell whether *path* is a link to a folder that it lies in, by any way from *folder*: walking it would not end."""
    if not path.is_symlink():
        return False
    target, base = path.resolve(), path.parent
    walked = (above for above in (base, *base.parents) if above.is_relative_to(folder))
    return base.resolve().is_relative_to(target) or any(above.resolve() == target for above in walked)


def _of_archive(path: Path, file: IO[bytes], wanted: Wanted, limit: int, most: int) -> Iterator[Member]:
    start = file.read(BLOCK)
    file.seek(0)
    if start.startswith(b"PK"):
        yield from _of_zip(path, file, wanted, limit, most)
        return
    if not start.startswith((GZIP, XZ, BZIP2)) and start[257:262] != b"ustar":
        raise _refusal(path, f"is no archive: expected tar (also with gz, xz or bz2) or zip, found {_seen(start)}")
    yield from _of_tar(path, _Counted(path, _unpacked(file, start), limit), wanted, limit, most)


def _unpacked(file: IO[bytes], start: bytes) -> IO[bytes]:
    if start.startswith(GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if start.startswith(XZ):
        return lzma.open(file)
    return bz2.open(file) if start.startswith(BZIP2) else file


class _Counted:
    """A stream that is read no further than a limit, and remembers its last block."""

    def __init__(self, path: Path, stream: IO[bytes], limit: int) -> None:
        self._path, self._stream, self._limit = path, stream, limit
        self._left = limit + MOST_MEMBERS * BLOCK  # headers and padding are no content
        self.last = b""

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise _bomb(self._path, self._limit)
        self.last = (self.last + data)[-BLOCK:]
        return data


def _of_tar(path: Path, stream: _Counted, wanted: Wanted, limit: int, most: int) -> Iterator[Member]:
    left = limit
    with Tar.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:  # all it needs is `read`
        for count, member in enumerate(tar.files()):
            _check_name(path, member.name)
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise _refusal(path, f'"{member.name[:80]}" is {_kind(member)}: expected files and folders only')
            left -= member.size
            if left < 0 or count >= MOST_MEMBERS:
                raise _bomb(path, limit)
            if member.isreg() and wanted(member.name):
                if member.size > most:
                    raise _large(f"{path}, {member.name}", most)
                file = tar.extractfile(member)
                content = file.read() if file else b""
                if len(content) != member.size:
                    raise ValueError(f'"{member.name}" ends early')
                yield Member(f"{path}, {member.name}", member.name, content)
        # tarfile takes a damaged header in the middle for the end. So the rest must be empty, and the last block the end mark.
        while rest := cast("IO[bytes]", tar.fileobj).read(2**20):
            if rest.strip(b"\0"):
                raise ValueError("a header in the middle of it is none")
        if stream.last.strip(b"\0") or len(stream.last) < BLOCK:
            raise ValueError("it has no end mark")


def _of_zip(path: Path, file: IO[bytes], wanted: Wanted, limit: int, most: int) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        for entry in entries:
            _check_name(path, entry.filename)
            mode = entry.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refusal(path, f'"{entry.filename[:80]}" is a link or device: expected files and folders only')
            if problem := _packing(entry):
                raise _refusal(path, problem)
        if sum(entry.file_size for entry in entries) > limit or len(entries) > MOST_MEMBERS:
            raise _bomb(path, limit)
        for entry in entries:
            if not entry.is_dir() and wanted(entry.filename):
                if entry.file_size > most:
                    raise _large(f"{path}, {entry.filename}", most)
                yield Member(f"{path}, {entry.filename}", entry.filename, bytes(unpacked(archive, entry)))


def unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytearray:
    """Return the content of *entry* in *archive*, unpacked no further than to the size that it says; its sum is checked.

    Raises ValueError if it is packed in a way that does not allow that, and what zipfile raises for damage.
    """
    if problem := _packing(entry):
        raise ValueError(problem)
    content = bytearray()
    with archive.open(entry) as opened:
        while piece := opened.read(PIECE):  # asked for all, zipfile would unpack up to 2 GiB, and then cut them to that size
            content += piece
    return content


def _packing(entry: zipfile.ZipInfo) -> str:
    """Return what is wrong with how *entry* is packed, or nothing."""
    if entry.compress_type in PACKINGS:
        return ""
    return f'"{entry.filename[:80]}" is packed by method {entry.compress_type} of zip, expected 0 or 8'


def _check_name(path: Path, name: str) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or name[1:2] == ":" or "\0" in name:
        raise _refusal(path, f'"{name[:80]}" leads out of the archive: expected names inside it')


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f'a link to "{member.linkname[:80]}"'
    return "a sparse file" if member.issparse() else "a device or pipe"


def _seen(start: bytes) -> str:
    if start[:512].lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, probably an error page saved under the name of the data"
    return f"a file that begins with 0x{start[:4].hex()}" if start else "an empty file"


def _bomb(path: Path, limit: int) -> DataError:
    return _refusal(path, f"the archive unpacks to more than expected: at most {limit:,} bytes")


def _large(place: str, most: int) -> DataError:
    return DataError(place, f"the file is too large: expected at most {most:,} bytes, found more", hint=HINT)


def _refusal(path: Path, problem: str) -> DataError:
    return DataError(str(path), problem, hint=HINT)


def _raise(error: OSError) -> None:
    raise error
