"""Pictures in folders of classes: layouts, order, and what is refused."""

import io
import os
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.class_folders import read_folders
from contilab.data.download import Remote, sha256_is
from contilab.data.folder_set import FolderSet, read_folder_set
from contilab.errors import DataError, RefusedStart

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def picture(value: int, size: tuple[int, int] = (4, 3), mode: str = "RGB", kind: str = "PNG") -> bytes:
    """Return a picture of *size* pixels (width, height) of one colour."""
    out = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value, value + 1, value + 2)).save(out, kind)
    return out.getvalue()


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write *files* into *folder* and return it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def claimed(width: int, height: int, *chunks: tuple[bytes, bytes], bits: int = 8, colours: int = 2) -> bytes:
    """Return a PNG of three pixels, red to blue, that says it has *width* x *height*, with *chunks* before its pixels.

    *bits*: that it says a value has. *colours*: the number of its kind, 2 for RGB, 4 for grey with alpha, 6 for both.
    """
    header = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    pixels = zlib.compress(b"\0" + bytes([255, 0, 0, 0, 255, 0, 0, 0, 255]))
    parts = ((b"IHDR", header), *chunks, (b"IDAT", pixels), (b"IEND", b""))
    sums = (zlib.crc32(kind + content) for kind, content in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
        for (kind, content), checksum in zip(parts, sums, strict=True)
    )


def tiled(width: int, height: int, *, bits: int = 8, channels: int = 1) -> bytes:
    """Return a TIFF of 4 x 3 pixels that says its one tile, packed by LZW, has *width* x *height*; three *channels* are RGB."""
    kind = 2 if channels == 3 else 1
    tags = {256: 4, 257: 3, 258: bits, 259: 5, 262: kind, 277: channels, 322: width, 323: height, 324: 8, 325: 8}
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<I", 16) + bytes(8) + struct.pack("<H", len(tags)) + rows + bytes(4)


BMP = (  # 4 x 3 pixels of 5, 6 and 5 bits
    b"BM" + struct.pack("<IIIIiiHHIIiiIIIII", 90, 0, 66, 40, 4, 3, 1, 16, 3, 24, 0, 0, 0, 0, 0xF800, 0x7E0, 0x1F) + bytes(24)
)
TWO = {
    "train/dog/b.png": picture(20),
    "train/dog/a.png": picture(10),
    "train/cat/z.png": picture(30),
    "test/cat/q.png": picture(40),
    "test/dog/q.png": picture(50),
}
TINY = {
    "tiny-imagenet-200/wnids.txt": b"n2\nn1\n",
    "tiny-imagenet-200/train/n2/images/n2_0.JPEG": picture(0, kind="JPEG"),
    "tiny-imagenet-200/train/n2/n2_boxes.txt": b"",
    "tiny-imagenet-200/train/n1/images/n1_0.JPEG": picture(100, kind="JPEG"),
    "tiny-imagenet-200/train/n1/images/n1_1.JPEG": picture(120, mode="L", kind="JPEG"),
    "tiny-imagenet-200/val/val_annotations.txt": b"val_0.JPEG\tn2\t0\t0\t62\t62\nval_1.JPEG\tn1\t1\t2\t3\t4\n",
    "tiny-imagenet-200/val/images/val_0.JPEG": picture(200, kind="JPEG"),
    "tiny-imagenet-200/val/images/val_1.JPEG": picture(220, kind="JPEG"),
    "tiny-imagenet-200/test/images/test_0.JPEG": picture(5, kind="JPEG"),
}
SET = FolderSet(
    "tiny", (3, 3, 4), 2, 3, 2, Remote("tiny.zip", (), 10**6, sha256_is("0" * 64)), ("tiny-imagenet-200",), ("val",)
)


def zipped(files: dict[str, bytes]) -> bytes:
    """Return *files* as a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


class TestFolders:
    """Folders of any data set."""

    @pytest.mark.parametrize("layout", ["folder", "zip", "zip below a folder"])
    def test_classes_and_pictures_are_in_the_order_of_names(self, tmp_path: Path, layout: str) -> None:
        """Classes are numbered by name, pictures follow class and name, in folder and archive alike."""
        prefix = "any/name/" if "below" in layout else ""
        files = {f"{prefix}{name}": content for name, content in TWO.items()}
        path = put(tmp_path, files if layout == "folder" else {"x.zip": zipped(files)})

        read = read_folders(path if layout == "folder" else path / "x.zip", "pets")

        assert read.class_names == ("cat", "dog")
        assert read.dataset.train_labels.tolist() == [0, 1, 1]
        assert read.dataset.train_inputs[:, :, 0, 0].tolist() == [[30, 31, 32], [10, 11, 12], [20, 21, 22]]
        assert read.dataset.train_inputs.shape == (3, 3, 3, 4)
        assert read.dataset.test_inputs[:, 0, 2, 3].tolist() == [40, 50]

    def test_test_data_may_be_called_validation(self, tmp_path: Path) -> None:
        """Without class folders in `test`, `val` holds the test data."""
        files = {name.replace("test/", "val/"): content for name, content in TWO.items()}

        read = read_folders(put(tmp_path, {**files, "test/unlabelled/x.png": picture(9)}), "pets")

        assert read.dataset.test_labels.tolist() == [0, 1]

    def test_every_fifth_picture_is_test_data_where_no_one_says(self, tmp_path: Path) -> None:
        """With class folders only, the fifth, tenth, ... picture of each class by name is test data, and no other."""
        files = {f"{label}/{number:02}.png": picture(number) for label in ("a", "b") for number in range(11)}

        read = read_folders(put(tmp_path, files), "own")

        assert read.dataset.test_inputs[:, 0, 0, 0].tolist() == [4, 9, 4, 9]
        assert len(read.dataset.train_labels) == 18

    def test_names_that_no_terminal_should_get(self, tmp_path: Path) -> None:
        """Classes whose names hold bytes that are no text, line ends or control characters are shown with these written out."""
        names = {b"a\n": r"a\n", b"b\x1b[2J": r"b\x1b[2J", b"c\xff": r"c\udcff", "größe".encode(): "größe"}
        for name in names:
            put(tmp_path, {f"{part}/{os.fsdecode(name)}/x.png": picture(1) for part in ("train", "test")})

        assert read_folders(tmp_path, "x").class_names == tuple(names.values())

    def test_more_classes_than_are_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Folders of more classes than predictions can name are refused."""
        monkeypatch.setattr("contilab.data.class_folders.MOST_CLASSES", 1)

        with pytest.raises(DataError, match="has 2 classes, expected at most 1"):
            read_folders(put(tmp_path, TWO), "x")

    def test_grey_pictures_have_one_channel(self, tmp_path: Path) -> None:
        """If no picture has colours there is one channel; one coloured picture makes it three."""
        grey = {name: picture(7, mode="L") for name in TWO}

        assert read_folders(put(tmp_path / "a", grey), "x").dataset.train_inputs.shape == (3, 1, 3, 4)
        mixed = read_folders(put(tmp_path / "b", {**grey, "test/dog/q.png": picture(1)}), "x").dataset
        assert mixed.train_inputs.shape == (3, 3, 3, 4)

    def test_size_makes_pictures_alike(self, tmp_path: Path) -> None:
        """With a size every picture becomes that size; without, another size is refused by the picture's name."""
        path = put(tmp_path, {**TWO, "train/dog/c.png": picture(9, (5, 5))})

        assert read_folders(path, "x", size=8).dataset.train_inputs.shape == (4, 3, 8, 8)
        with pytest.raises(DataError, match=r'"dog/c\.png" has 5 x 5 pixels, expected 4 x 3 as the first one') as caught:
            read_folders(path, "x")
        assert "--size" in caught.value.faults[0].hint

    @pytest.mark.parametrize(
        ("files", "sentence"),
        [
            ({"readme.txt": b"x"}, "holds no pictures in folders of classes"),
            ({"picture.png": picture(1)}, "holds no pictures in folders of classes"),
            ({"train/a/x.png": picture(1)}, "has training pictures, but none of their classes in test or val"),
            ({"test/a/x.png": picture(1)}, "has pictures in test, and none in train"),
            ({"a/x.png": picture(1)}, "no class has five pictures"),
            ({**TWO, "test/cow/x.png": picture(1)}, 'the test data have the class "cow", which the training data lack'),
        ],
    )
    def test_other_layouts_are_refused(self, tmp_path: Path, files: dict[str, bytes], sentence: str) -> None:
        """What is not folders of classes is refused with what is missing and the layout that is expected."""
        with pytest.raises(DataError, match=sentence) as caught:
            read_folders(put(tmp_path, files), "x")

        assert "train/CLASS" in caught.value.faults[0].hint

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param(b"", "it is none of PNG, JPEG", id="empty"),
            pytest.param(b"<html>404</html>", "it is none of PNG, JPEG", id="page"),
            pytest.param(picture(1)[:50], "", id="cut"),
            pytest.param(picture(1)[:30], "", id="header cut"),
            pytest.param(b"P6 99999 99999 255\n", "bomb", id="10 billion pixels"),
            pytest.param(claimed(10_000, 10_000), "it has 10000 x 10000 pixels, expected at most 16,777,216", id="100 million"),
            pytest.param(claimed(4097, 4096), "it has 4097 x 4096 pixels", id="a column too many"),
            pytest.param(tiled(65_536, 32_768), "it has 65536 x 32768 pixels", id="tiles larger than the picture"),
            pytest.param(b"P5 4 3 65535\n" + bytes(24), "its values have more than 8 bits", id="16 bits"),
            pytest.param(b"P6 4 3 65535\n" + bytes(72), "its values have more than 8 bits", id="16 bits of colour"),
            pytest.param(b"P6 4 3 256\n" + bytes(72), "its values have more than 8 bits", id="9 bits of colour"),
            pytest.param(b"P3 1 1 256\n256 0 1\n", "its values have more than 8 bits", id="9 bits in text"),
            *(
                pytest.param(
                    claimed(4, 3, bits=16, colours=kind), "its values have more than 8 bits", id=f"16 bits of PNG {kind}"
                )
                for kind in (0, 2, 4, 6)
            ),
            pytest.param(tiled(4, 3, bits=16, channels=3), "its values have more than 8 bits", id="16 bits of TIFF"),
        ],
    )
    def test_damaged_pictures_are_refused(self, tmp_path: Path, content: bytes, reason: str) -> None:
        """Empty, cut, foreign and enormous pictures are refused by their path, and so are values that 8 bits cannot hold."""
        path = put(tmp_path, {**TWO, "train/cat/z.png": content})

        with pytest.raises(DataError, match="is no picture that can be read") as caught:
            read_folders(path, "x")

        assert caught.value.faults[0].place == str(path / "train/cat/z.png")
        assert reason in caught.value.faults[0].problem
        assert "object at 0x" not in caught.value.faults[0].problem

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"P6 4 3 15\n" + bytes(36), id="4 bits of colour"),
            pytest.param(BMP, id="16 bits of a pixel"),
        ],
    )
    def test_values_of_fewer_bits_are_read(self, tmp_path: Path, content: bytes) -> None:
        """Values that 8 bits can hold are no loss, whatever a pixel of theirs takes."""
        read = read_folders(put(tmp_path, {**TWO, "train/cat/z.png": content}), "x")

        assert read.dataset.train_inputs.shape == (3, 3, 3, 4)

    def test_what_the_reader_warns_of_is_no_error(self, tmp_path: Path) -> None:
        """A picture that Pillow reads with a warning is read without one, also where warnings are errors as in these tests."""
        odd = claimed(3, 1, (b"acTL", bytes(8)))  # an animation of no pictures

        read = read_folders(put(tmp_path, {"train/a/x.png": odd, "test/a/x.png": odd}), "x")

        assert read.dataset.train_inputs[0].tolist() == [[[255, 0, 0]], [[0, 255, 0]], [[0, 0, 255]]]

    @pytest.mark.parametrize("prefixes", [("one/train", "two/train"), ("one", "two")])
    def test_two_sets_in_one_folder_are_refused(self, tmp_path: Path, prefixes: tuple[str, str]) -> None:
        """Where a picture would take the place of another the second one is named; none is lost without a word."""
        path = put(tmp_path, {f"{prefix}/cat/z.png": picture(1) for prefix in prefixes})

        with pytest.raises(DataError, match=r'there are two pictures "(train/)?cat/z\.png"') as caught:
            read_folders(path, "x")

        assert caught.value.faults[0].place == str(path / prefixes[1] / "cat/z.png")

    def test_a_file_too_large_for_a_picture_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A picture's file is refused above what the pixels of the largest one take, in a zip as in a folder."""
        monkeypatch.setattr("contilab.data.class_folders.MOST_BYTES", 500)
        files = {**TWO, "train/cat/z.png": picture(1) + bytes(500)}
        path = put(tmp_path, files | {"x.zip": zipped(files)})

        for place in (path, path / "x.zip"):
            with pytest.raises(DataError, match=r"z\.png: the file is too large: expected at most 500 bytes"):
                read_folders(place, "x")

    def test_without_pillow_the_extra_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where Pillow is not installed the message says how it is had."""
        monkeypatch.setitem(__import__("sys").modules, "PIL", None)

        with pytest.raises(RefusedStart, match="Pillow is not installed") as caught:
            read_folders(put(tmp_path, TWO), "x")

        assert "contilab[images]" in caught.value.faults[0].hint

    @settings(max_examples=100)
    @given(
        st.sampled_from(["PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF"]),
        st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=5),
    )
    def test_any_damage_ends_in_our_error_or_in_a_picture(
        self, tmp_path_factory: pytest.TempPathFactory, kind: str, changes: list[tuple[int, bytes]]
    ) -> None:
        """However a picture is changed, it is read or refused; nothing else is ever raised."""
        data = bytearray(picture(50, (9, 9), kind=kind))
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values
        folder = tmp_path_factory.getbasetemp() / "fuzzed-pictures"
        shutil.rmtree(folder, ignore_errors=True)
        path = put(folder, {"train/a/x.png": bytes(data), "test/a/x.png": picture(1, (9, 9))})

        try:
            read = read_folders(path, "x", size=9)
        except DataError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert read.dataset.train_inputs.shape == (1, 3, 9, 9)


class TestFolderSet:
    """TinyImageNet's form, in small."""

    @pytest.mark.parametrize("layout", ["folder", "folder itself", "zip", "folder of zip"])
    def test_validation_pictures_are_the_test_data(self, tmp_path: Path, layout: str) -> None:
        """Classes are the sorted names, the labels of test pictures come from the annotations, and unlabelled ones are left."""
        if layout.startswith("folder") and "zip" not in layout:
            path = put(tmp_path, TINY) / ("tiny-imagenet-200" if "itself" in layout else "")
        else:
            path = put(tmp_path, {"tiny.zip": zipped(TINY)}) / ("tiny.zip" if layout == "zip" else "")

        reading = read_folder_set(SET, path)

        assert reading.class_names == ("n1", "n2")
        assert reading.dataset.train_labels.tolist() == [0, 0, 1]
        assert reading.dataset.test_labels.tolist() == [0, 1]
        assert np.allclose(reading.dataset.test_inputs[:, 0, 0, 0], [220, 200], atol=3)  # JPEG is lossy
        assert not reading.is_published

    def test_archive_of_the_known_content_is_the_published_one(self, tmp_path: Path) -> None:
        """The archive with the published SHA-256 is the published set; made to another size it is not."""
        import hashlib

        path = put(tmp_path, {"tiny.zip": zipped(TINY)}) / "tiny.zip"
        known = SET._replace(remote=SET.remote._replace(check=sha256_is(hashlib.sha256(path.read_bytes()).hexdigest())))

        assert read_folder_set(known, path).is_published
        assert not read_folder_set(known, path, size=5).is_published

    def test_rearranged_validation_folders_are_read(self, tmp_path: Path) -> None:
        """Copies whose validation pictures were moved into folders of classes are read alike."""
        moved = {name: content for name, content in TINY.items() if "/val/" not in name}
        moved |= {
            "tiny-imagenet-200/val/n2/val_0.JPEG": TINY["tiny-imagenet-200/val/images/val_0.JPEG"],
            "tiny-imagenet-200/val/n1/images/val_1.JPEG": TINY["tiny-imagenet-200/val/images/val_1.JPEG"],
        }

        first, second = (read_folder_set(SET, put(tmp_path / name, files)) for name, files in (("a", TINY), ("b", moved)))

        assert first.dataset.test_inputs.equal(second.dataset.test_inputs)
        assert first.dataset.test_labels.equal(second.dataset.test_labels)

    def test_annotations_of_another_form(self, tmp_path: Path) -> None:
        """A file of annotations that is none is refused by its path."""
        path = put(tmp_path, {**TINY, "tiny-imagenet-200/val/val_annotations.txt": b"val_0.JPEG n2\n"})

        with pytest.raises(DataError, match=r"val_annotations\.txt: expected lines of picture, tab and class"):
            read_folder_set(SET, path)
