"""Picture files: those that a fuzzer found, and archives of them that unpack to more than they may."""

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from contilab.data.class_folders import read_folders
from contilab.data.jpeg import check
from contilab.data.pictures import decode
from contilab.errors import DataError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SEEDS = {  # the smallest files of their kind: what Pillow says of them, or warns of
    "frame of a GIF beyond all bounds": b"GIF87a\0\0\0\0\0\0,\0\0\0\0,\xb0\x13*D\x18\x10\0;",
    "frame of a GIF that Pillow warns of": b"GIF87a\0\4\t\1\0\0\0\0\0\0\0\0,g\0\0\0\0\x83\x08\x13*D\x18\x10",
    "frame of a GIF outside of it": b"GIF87a\t\0\7\0\x007a\0\0\0\0,\x08\0\7\0\x81\0\0\0\0\x10\1\0",
    "TIFF without tags, with a warning": b"II*\0`\5\0\0",
    "TIFF cut in a tag, with a warning": b"II*\0\x08\0\0\0\xca\1\t\4\x10\0\1\0\0\x007a\t\0",
    "JPEG of four colours without data": b"\xff\xd8\xff\xff\xc0\0\x14\x08\0'\0\t\4C\x11\0M\x11\0Y\x11C\1\0M\xf6\xf4\0;",
    "PNG with a header cut": b"\x89PNG\r\n\x1a\n\0\0\0\x08IHDR1\x08ND\xaeB`\x82",
    "WEBP without a picture": b"RIFF$\4\0\0WEBPVP8 \x18\1\0WE\0",
    "text for a size": b"P2\n\1",
}


def jpeg(scans: int) -> bytes:
    """Return a progressive JPEG of 8 x 8 pixels that has *scans* scans, the last of them again and again."""
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, "JPEG", progressive=True)
    content = out.getvalue()[:-2]
    last = content[content.rindex(b"\xff\xda") :]
    return content + last * (scans - content.count(b"\xff\xda")) + b"\xff\xd9"


def tiles(width: int, height: int, side: int) -> bytes:
    """Return a TIFF of *width* x *height* pixels in tiles of *side* x *side*, which all lie at one place."""
    count = -(-width // side) * -(-height // side)
    pixels = zlib.compress(bytes(side * side))
    start = 8 + 2 + 12 * 10 + 4
    tags = {256: width, 257: height, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side}
    rows = [*((tag, 4, 1, value) for tag, value in tags.items()), (324, 4, count, start), (325, 4, count, start + 4 * count)]
    lists = struct.pack("<I", start + 8 * count) * count + struct.pack("<I", len(pixels)) * count
    entries = b"".join(struct.pack("<HHII", *row) for row in rows)
    return b"II*\0" + struct.pack("<IH", 8, len(rows)) + entries + bytes(4) + lists + pixels


class TestDecode:
    """One file."""

    def test_passes_over_a_picture_are_counted(self) -> None:
        """A JPEG of more scans than anybody writes is refused before it is decoded; those behind its end do not count."""
        assert decode(jpeg(100), "x").pixels.shape == decode(jpeg(100) + jpeg(100), "x").pixels.shape == (3, 8, 8)

        with pytest.raises(DataError, match="it has more than 100 scans"):
            decode(jpeg(101), "x")

    def test_segments_are_counted(self) -> None:
        """A JPEG of more segments than anybody writes is refused: putting millions of them together takes hours."""
        content, camera = jpeg(9), b"\xff\xe1\0\x09Exif\0\0x"
        assert decode(content[:2] + camera * 900 + content[2:], "x").pixels.shape == (3, 8, 8)

        with pytest.raises(DataError, match="it has more than 1,000 segments"):
            decode(content[:2] + camera * 1000 + content[2:], "x")

    @pytest.mark.parametrize(
        "hiding",
        [
            pytest.param(b"\xff\x01", id="marker without a segment"),
            pytest.param(b"\xff" * 9, id="filling"),
            pytest.param(b"\xff\xfe\0\4\xff\xda", id="comment"),
        ],
    )
    def test_no_scan_hides_behind_other_markers(self, hiding: bytes) -> None:
        """What stands between scans neither hides those that the reader sees, nor counts as one."""
        few, many = (
            content[: (last := content.rindex(b"\xff\xda"))] + hiding + content[last:] for content in (jpeg(100), jpeg(101))
        )
        check(few)

        with pytest.raises(ValueError, match="scans"):
            check(many)

    def test_tiles_beyond_the_edge_are_counted(self) -> None:
        """A narrow TIFF whose wide tiles hold more pixels than a picture may is refused; a small one in a tile is read."""
        assert decode(tiles(3, 20, 16), "x").pixels.shape == (3, 20, 3)

        with pytest.raises(DataError, match="it has 4096 x 8192 pixels, expected at most 16,777,216"):
            decode(tiles(1, 4097, 4096), "x")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_files_that_a_fuzzer_found(self, seed: str) -> None:
        """Each is refused in one sentence with its place; no warning and no other error gets through."""
        with pytest.raises(DataError, match=r"^x: is no picture that can be read: ") as caught:
            decode(SEEDS[seed], "x")

        assert "\n" not in caught.value.faults[0].problem


class TestMemory:
    """Many files."""

    @pytest.mark.parametrize(("mode", "needed"), [("RGB", 288), ("L", 96)])
    def test_pictures_that_memory_does_not_hold_twice(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, needed: int
    ) -> None:
        """Pictures that, once they are read, leave no room to put them together are refused before the rest is read."""
        monkeypatch.setattr("contilab.data.class_folders.LOOK_BYTES", 100)
        out = io.BytesIO()
        Image.new(mode, (4, 4)).save(out, "PNG")
        for place in (f"{label}/{number}.png" for label in "ab" for number in range(5)):
            (tmp_path / place).parent.mkdir(exist_ok=True)
            (tmp_path / place).write_bytes(out.getvalue())

        expected = rf"its first \d pictures, put together, take {needed} bytes of memory, and {needed - 1} are left"
        with pytest.raises(DataError, match=expected) as caught:
            read_folders(tmp_path, "x", left=lambda: needed - 1)

        assert isinstance(caught.value.__cause__, MemoryError)
        assert "--size" in caught.value.faults[0].hint

    def test_pictures_that_unpack_to_more_than_their_archive_may(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Small files of large pictures are refused in an archive once they take too much memory; made small they are read."""
        monkeypatch.setattr("contilab.data.class_folders.LIMIT_BYTES", 5 * 60 * 60 * 3)
        out, path = io.BytesIO(), tmp_path / "x.zip"
        Image.new("RGB", (60, 60)).save(out, "PNG")
        with zipfile.ZipFile(path, "w") as archive:
            for name in (f"{label}/{number}.png" for label in "ab" for number in range(5)):
                archive.writestr(name, out.getvalue())

        with pytest.raises(DataError, match="take more memory than expected: at most 54,000 bytes") as caught:
            read_folders(path, "x")
        assert caught.value.faults[0].place == str(path)
        assert read_folders(path, "x", size=8).dataset.train_inputs.shape == (8, 3, 8, 8)
