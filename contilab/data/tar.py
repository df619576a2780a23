"""Reading a tar header by header, holding no more of it than what is in hand.

tarfile reads the text of long names and attributes whole, keeps every header, and copies the attributes of all files for each
of them: a file of a megabyte takes gigabytes by that.
"""

import tarfile
from collections.abc import Iterator
from typing import Self, cast

MOST_TEXT = 2**14  # bytes of a long name or of attributes, which tarfile reads at once; chosen: Linux' paths have 2**12
MOST_TEXTS = 4  # of one file, which tarfile keeps until it has read all; chosen: a name, a link and attributes
MOST_ATTRIBUTES = 100  # of all files, which tarfile copies for each of them; chosen: git writes one
TEXTS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip


class _Header(tarfile.TarInfo):
    """A header of a tar, refused if tarfile would go on to read it whole from blocks that nobody has counted."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the header in *buf*; ValueError if it is refused."""
        made = super().frombuf(buf, encoding, errors)
        if made.type in TEXTS and made.size > MOST_TEXT:
            raise ValueError(f"a name or attribute in it has {made.size:,} bytes, expected at most {MOST_TEXT:,}")
        if made.type == tarfile.GNUTYPE_SPARSE:
            raise ValueError(f'"{made.name[:80]}" is a sparse file: expected files and folders only')
        return made

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        """Return the next header of *tarfile* with all texts in front of it; ValueError if these are too many.

        Attributes may overlap where Python is older than 3.11.10 or 3.12.6, and then take a thousand times their bytes.
        """
        tar = cast("Tar", tarfile)
        if tar.nested > MOST_TEXTS:
            raise ValueError(f"a file in it has more than {MOST_TEXTS} names and attributes")
        tar.nested += 1
        try:
            return super().fromtarfile(tar)
        finally:
            tar.nested -= 1


class Tar(tarfile.TarFile):
    """A tar that knows how many headers it is inside of, and remembers no file that it has been asked for."""

    tarinfo = _Header
    members: list[tarfile.TarInfo]  # which typeshed leaves out
    nested = 0

    def files(self) -> Iterator[tarfile.TarInfo]:
        """Yield the headers of all files, folders and others; ValueError if all of them have too many attributes."""
        while header := self.next():
            self.members.clear()  # tarfile keeps each with its attributes, for random access
            if len(self.pax_headers) > MOST_ATTRIBUTES:
                raise ValueError(f"all files in it have more than {MOST_ATTRIBUTES} attributes")
            yield header
