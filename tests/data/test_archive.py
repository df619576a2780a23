"""Files from folders and archives: what is read, and that hostile, damaged and cut archives are refused with a reason."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.archive import PIECE, members
from contilab.errors import DataError

FILES = {"set/a": b"first", "set/deep/b": bytes(range(256)) * 9, "set/c.txt": b""}
LIMIT = 10_000


def tar_of(files: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    """Return a tar with *files* and entries without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    return out.getvalue()


def zip_of(files: dict[str, bytes], mode: int = 0o100644) -> bytes:
    """Return a zip with *files*, the last of which has *mode*."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode if name == list(files)[-1] else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return an entry of a tar that is no file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def said(content: bytes, size: int) -> bytes:
    """Return the zip *content* of one file, saying that this file has *size* bytes."""
    header, entry = content.index(b"PK\3\4") + 22, content.index(b"PK\1\2") + 24
    named = bytearray(content)
    named[header : header + 4] = named[entry : entry + 4] = size.to_bytes(4, "little")
    return bytes(named)


def packed_by(method: int) -> bytes:
    """Return a zip whose file is packed by *method*."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("x", b"short")
    return out.getvalue()


def long_text(kind: bytes, size: int) -> bytes:
    """Return a tar whose first header announces *size* bytes of a name or of attributes."""
    info = entry("x", kind)
    info.size = size
    return info.tobuf() + bytes(1024)


def attributes(*tables: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return a tar of one file with *tables* of attributes in front of it, each a header of *kind*."""
    headers = b""
    for table in tables:
        body = b"".join(
            b"%03d %s=%s\n" % (len(key) + len(value) + 6, key.encode(), value.encode()) for key, value in table.items()
        )
        info = entry("x", kind)
        info.size = len(body)
        headers += info.tobuf() + body + bytes(-len(body) % 512)
    return headers + tar_of({"x": b"content"})


def everything(path: Path, limit: int = LIMIT) -> dict[str, bytes]:
    """Return all files in *path*."""
    return {member.name: member.content for member in members(path, lambda _: True, limit=limit)}


TAR = tar_of(FILES)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.xz": lzma.compress,
    "tar.bz2": bz2.compress,
}
HOSTILE = {
    "parent": (tar_of({"../x": b"out"}), '"../x" leads out of the archive'),
    "hidden parent": (tar_of({"a/../../x": b"out"}), "leads out of the archive"),
    "absolute": (tar_of({"/abs/x": b"out"}), '"/abs/x" leads out of the archive'),
    "backslashes": (tar_of({"..\\x": b"out"}), "leads out of the archive"),
    "drive": (tar_of({"C:x": b"out"}), "leads out of the archive"),
    "symbolic link": (tar_of({}, entry("x", tarfile.SYMTYPE, "/etc")), 'is a link to "/etc"'),
    "link inside": (tar_of(FILES, entry("x", tarfile.SYMTYPE, "set/a")), "is a link to"),
    "hard link": (tar_of(FILES, entry("x", tarfile.LNKTYPE, "set/a")), "is a link to"),
    "device": (tar_of({}, entry("x", tarfile.CHRTYPE)), "is a device or pipe"),
    "pipe": (tar_of({}, entry("x", tarfile.FIFOTYPE)), "is a device or pipe"),
    "zip parent": (zip_of({"../x": b"out"}), "leads out of the archive"),
    "zip absolute": (zip_of({"/x": b"out"}), "leads out of the archive"),
    "zip link": (zip_of({"x": b"/etc"}, 0o120777), "is a link or device"),
    "zip bomb": (zip_of({"x": bytes(LIMIT + 1)}), "unpacks to more than expected: at most 10,000 bytes"),
    "tar bomb": (tar_of({"x": bytes(LIMIT + 1)}), "unpacks to more than expected"),
    "gz bomb": (gzip.compress(tar_of({"x": bytes(4_000_000)})), "unpacks to more than expected"),
    "zip of bzip2": (packed_by(zipfile.ZIP_BZIP2), '"x" is packed by method 12 of zip, expected 0 or 8'),
    "zip of lzma": (packed_by(zipfile.ZIP_LZMA), '"x" is packed by method 14 of zip, expected 0 or 8'),
    "long name": (long_text(tarfile.GNUTYPE_LONGNAME, 2**14 + 1), "has 16,385 bytes, expected at most 16,384"),
    "long attributes": (long_text(tarfile.XHDTYPE, 2**32), "has 4,294,967,296 bytes, expected at most 16,384"),
    "many attributes in a row": (attributes(*[{"a": "b"}] * 5), "a file in it has more than 4 names and attributes"),
    "many attributes of all files": (
        attributes({f"{number:03}": "b" for number in range(101)}, kind=tarfile.XGLTYPE),
        "all files in it have more than 100 attributes",
    ),
    "sparse file": (tar_of({}, entry("x", tarfile.GNUTYPE_SPARSE)), '"x" is a sparse file'),
}
DAMAGED = {
    "empty": (b"", "is no archive: expected tar (also with gz, xz or bz2) or zip, found an empty file"),
    "page": (b"<!DOCTYPE html><html>404</html>", "found a web page"),
    "noise": (bytes(range(1, 200)), "found a file that begins with 0x01020304"),
    "tar cut in a file": (TAR[:2000], "damaged or cut"),
    "tar without end": (TAR.rstrip(b"\0") + bytes(-len(TAR.rstrip(b"\0")) % 512), "damaged or cut"),
    "tar header damaged": (TAR[:1024] + b"\xff" * 512 + TAR[1536:], "a header in the middle of it is none"),
    "gz cut": (gzip.compress(TAR)[:-20], "damaged or cut"),
    "gz flipped": (gzip.compress(TAR)[:-6] + b"\xff\xfe\0\0\0\0", "CRC"),
    "xz cut": (lzma.compress(TAR)[:-9], "damaged or cut"),
    "bz2 cut": (bz2.compress(TAR)[:-9], "damaged or cut"),
    "zip cut": (zip_of(FILES)[:-40], "damaged or cut"),
    "zip flipped": (
        zip_of({"x": b"abcdefgh" * 99}).replace(b"abc", b"abd", 1)[:38] + b"\xff" + zip_of({"x": b"abcdefgh" * 99})[39:],
        "damaged",
    ),
}


class TestMembers:
    """What is read."""

    @pytest.mark.parametrize("end", PACKERS)
    def test_tar_and_its_packed_forms(self, tmp_path: Path, end: str) -> None:
        """Every file comes with its name and content, whatever the archive is called; folders are no files."""
        path = tmp_path / "download"
        path.write_bytes(PACKERS[end](tar_of(FILES, entry("set/empty", tarfile.DIRTYPE))))

        assert everything(path) == FILES

    def test_zip(self, tmp_path: Path) -> None:
        """Zips are read alike."""
        path = tmp_path / "download"
        path.write_bytes(zip_of(FILES))

        assert everything(path) == FILES

    def test_folder(self, tmp_path: Path) -> None:
        """Folders are read alike, in the order of names; links of the user's own are followed, pipes passed over."""
        (tmp_path / "set" / "deep").mkdir(parents=True)
        (tmp_path / "outside").write_bytes(b"elsewhere")
        for name, content in FILES.items():
            (tmp_path / name).write_bytes(content)
        (tmp_path / "set" / "link").symlink_to(tmp_path / "outside")
        os.mkfifo(tmp_path / "set" / "pipe")

        found = everything(tmp_path / "set")

        assert found == {**{name.removeprefix("set/"): content for name, content in FILES.items()}, "link": b"elsewhere"}

    def test_links_to_folders_are_followed_but_not_in_circles(self, tmp_path: Path) -> None:
        """A folder of the user's own that is linked is part of the data; links that lead to where they lie are passed over."""
        for name in ("set/a", "elsewhere/b"):
            (tmp_path / name).mkdir(parents=True)
            (tmp_path / name / "file").write_bytes(name.encode())
        for name, target in {
            "set/b": "elsewhere/b",
            "set/a/up": "set",
            "set/a/self": "set/a",
            "elsewhere/b/back": "set",
        }.items():
            (tmp_path / name).symlink_to(tmp_path / target)

        assert everything(tmp_path / "set") == {"a/file": b"set/a", "b/file": b"elsewhere/b"}

    def test_attributes_of_files_are_read(self, tmp_path: Path) -> None:
        """A tar with attributes of all files and of each, as git and others write it, is read, the name among them."""
        path = tmp_path / "download"
        of_all = attributes({"comment": "0" * 40}, kind=tarfile.XGLTYPE)[:1024]
        path.write_bytes(of_all + attributes({"path": "long/name"}))

        assert everything(path) == {"long/name": b"content"}

    def test_only_what_is_wanted_is_read(self, tmp_path: Path) -> None:
        """Other files are not read, and the place of a file names the archive and the file."""
        path = tmp_path / "download.tar"
        path.write_bytes(TAR)

        (member,) = members(path, lambda name: name.endswith("/a"), limit=LIMIT)

        assert member == (f"{path}, set/a", "set/a", b"first")


class TestRefusals:
    """What is refused."""

    @pytest.mark.parametrize("case", HOSTILE)
    def test_hostile_archives(self, tmp_path: Path, case: str) -> None:
        """Names that lead out, links, devices and bombs are refused with a sentence, and nothing is written anywhere."""
        content, sentence = HOSTILE[case]
        path = tmp_path / "inner" / "download"
        path.parent.mkdir()
        path.write_bytes(content)

        with pytest.raises(DataError) as caught:
            everything(path)

        assert caught.value.faults[0].place == str(path)
        assert sentence in caught.value.faults[0].problem
        assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]

    @pytest.mark.parametrize("make", [tar_of, zip_of])
    def test_endless_lists_of_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[dict[str, bytes]], bytes]
    ) -> None:
        """An archive of more entries than any data set has is refused, though they hold nothing."""
        monkeypatch.setattr("contilab.data.archive.MOST_MEMBERS", 20)
        path = tmp_path / "download"
        path.write_bytes(make({str(number): b"" for number in range(21)}))

        with pytest.raises(DataError, match="unpacks to more than expected"):
            everything(path)

    def test_a_file_of_a_zip_unpacks_no_further_than_it_says(self, tmp_path: Path) -> None:
        """A file that says it has 100 bytes, and would unpack to 32 MB, never takes them: a piece or two of it at most."""
        path = tmp_path / "download"
        path.write_bytes(said(zip_of({"x": bytes(32_000_000)}), 100))
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match="Bad CRC-32"):
                everything(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert peak < 4 * PIECE

    @pytest.mark.parametrize("make", [tar_of, zip_of])
    def test_one_file_may_have_a_limit_of_its_own(self, tmp_path: Path, make: Callable[[dict[str, bytes]], bytes]) -> None:
        """A wanted file above it is refused by its name, before it is read from an archive; files not wanted do not count."""
        (tmp_path / "x").write_bytes(bytes(51))
        (tmp_path / "download").write_bytes(make({"unwanted": bytes(60), "x": bytes(51)}))

        for path, place in ((tmp_path, tmp_path / "x"), (tmp_path / "download", f"{tmp_path / 'download'}, x")):
            assert len(list(members(path, "x".__eq__, limit=LIMIT, each=51))) == 1
            with pytest.raises(DataError, match="too large: expected at most 50 bytes, found more") as caught:
                list(members(path, "x".__eq__, limit=LIMIT, each=50))
            assert caught.value.faults[0].place == str(place)

    def test_ten_gigabytes_of_zeros_are_not_unpacked(self, tmp_path: Path) -> None:
        """An archive that says it holds 10 GB is refused at its header; what follows is not needed to tell."""
        path, info = tmp_path / "download", tarfile.TarInfo("zeros")
        info.size = 10 * 2**30
        path.write_bytes(gzip.compress(info.tobuf() + bytes(2**20)))

        with pytest.raises(DataError, match="unpacks to more than expected: at most 1,073,741,824 bytes"):
            everything(path, 2**30)

    @pytest.mark.parametrize("case", DAMAGED)
    def test_damaged_archives(self, tmp_path: Path, case: str) -> None:
        """Cut, flipped and foreign files are refused with a sentence."""
        content, sentence = DAMAGED[case]
        path = tmp_path / "download"
        path.write_bytes(content)

        with pytest.raises(DataError) as caught:
            everything(path)

        assert sentence in caught.value.faults[0].problem
        assert "\n" not in caught.value.faults[0].problem

    def test_large_file_of_a_folder(self, tmp_path: Path) -> None:
        """A file of a folder may not exceed the limit either."""
        (tmp_path / "large").write_bytes(bytes(LIMIT + 1))

        with pytest.raises(DataError, match="too large: expected at most 10,000 bytes"):
            everything(tmp_path)

    @settings(max_examples=150)
    @given(
        st.sampled_from([TAR, gzip.compress(TAR), lzma.compress(TAR), bz2.compress(TAR), zip_of(FILES)]),
        st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6),
        st.integers(0, 20_000),
    )
    def test_any_damage_ends_in_our_error_or_in_files(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes, changes: list[tuple[int, bytes]], keep: int
    ) -> None:
        """However an archive is changed and cut, it is read or refused; nothing else is ever raised."""
        data = bytearray(content)
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values
        path = tmp_path_factory.getbasetemp() / "fuzzed"
        path.write_bytes(bytes(data[: keep or None]))

        try:
            found = everything(path)
        except DataError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert sum(map(len, found.values())) <= LIMIT
