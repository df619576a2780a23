"""What lies around the files of a bundle: headers and the directory of its zip file, which hold nothing that is not known.

A changed byte there changes no file, so no digest tells of it; but every one of them follows from what is packed, and is
written again for comparison. Of a compressed file a few bits after its end carry nothing; they are compared where the same
compression gives the same bytes, which another release of zlib may not.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that zip knows: the bytes tell nothing of when they were packed
SYSTEM, VERSION, MODE = 3, 20, 0o644 << 16  # of Unix, of a plain zip file, and for all to read
DATE = EPOCH[1] << 5 | EPOCH[2]  # as zip packs it
UTF_8 = 0x800
LARGEST = 2**31 - 1  # beyond, and from so many files on, a zip file is of the other kind, whose frame is not looked at
SPARE = 1.05  # by which `zipfile` multiplies the size of a file before it compares it: to deflate may make it larger
MOST = 2**16 - 1


def new_entry(name: str, *, is_stored: bool) -> zipfile.ZipInfo:
    """Return what the archive says of a new file *name*."""
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system, entry.external_attr = SYSTEM, MODE
    entry.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
    return entry


def frame_faults(archive: zipfile.ZipFile, file: IO[bytes], largest: int) -> Iterator[str]:
    """Yield the names of files whose frame in *file*, that *archive* reads, is not as it was written; "" for its end.

    None where *file*, or one inside, of which the *largest* has so many bytes, is so large that its frame has another form.
    """
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    size = file.seek(0, 2)
    if max(size, largest * SPARE) > LARGEST or len(entries) >= MOST:
        return
    place = 0
    for entry in entries:
        header = _local(entry)
        file.seek(place)
        is_whole = entry.header_offset == place and file.read(len(header)) == header
        place += len(header) + entry.compress_size
        if not is_whole or _has_loose_end(archive, entry, file, place):
            yield entry.filename
    file.seek(place)
    if file.read() != _end(archive.infolist(), place):
        yield ""


def _local(entry: zipfile.ZipInfo) -> bytes:
    return b"PK\3\4" + struct.pack("<H", VERSION) + _facts(entry) + struct.pack("<H", 0) + entry.filename.encode()


def _facts(entry: zipfile.ZipInfo) -> bytes:
    name = entry.filename.encode()
    flags = 0 if name.isascii() else UTF_8
    sizes = (entry.CRC, entry.compress_size, entry.file_size, len(name))
    return struct.pack("<4H3LH", flags, entry.compress_type, 0, DATE, *sizes)


def _end(entries: Sequence[zipfile.ZipInfo], place: int) -> bytes:
    """Return the directory of *entries*, which stands at *place*, and what closes the file."""
    lines = b"".join(
        b"PK\1\2"
        + struct.pack("<BBH", VERSION, SYSTEM, VERSION)
        + _facts(entry)
        + struct.pack("<4H2L", 0, 0, 0, 0, MODE, entry.header_offset)
        + entry.filename.encode()
        for entry in entries
    )
    count = len(entries)
    return lines + b"PK\5\6" + struct.pack("<4H2LH", 0, 0, count, count, len(lines), place, 0)


def _has_loose_end(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, file: IO[bytes], end: int) -> bool:
    """Whether the compressed *entry*, which ends at *end* of *file*, ends in other bits than the same data do here."""
    if entry.compress_type != zipfile.ZIP_DEFLATED or not entry.compress_size:
        return False
    squeezer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    again = squeezer.compress(archive.read(entry)) + squeezer.flush()
    file.seek(end - entry.compress_size)
    there = file.read(entry.compress_size)
    return again != there and again[:-1] == there[:-1]
