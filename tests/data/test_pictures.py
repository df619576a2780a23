"""Picture files: those that a fuzzer found, and archives of them that unpack to more than they may."""

import io
import zipfile
from pathlib import Path

import pytest

from contilab.data.class_folders import read_folders
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


class TestDecode:
    """One file."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_files_that_a_fuzzer_found(self, seed: str) -> None:
        """Each is refused in one sentence with its place; no warning and no other error gets through."""
        with pytest.raises(DataError, match=r"^x: is no picture that can be read: ") as caught:
            decode(SEEDS[seed], "x")

        assert "\n" not in caught.value.faults[0].problem


class TestMemory:
    """Many files."""

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
