"""Image sets in IDX files: what is read, where it is looked for, and that damaged or foreign files are refused by name."""

import gzip
import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.digest import digest_of
from contilab.data.folders import locate
from contilab.data.idx_file import SLACK_BYTES, KnownFile, read
from contilab.data.image_set import ImageSet, read_dataset
from contilab.errors import DataError

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
LABELS = NAMES[1]


def idx(array: np.ndarray, code: int = 0x08) -> bytes:
    """Return the IDX file of *array*."""
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def contents(shift: int = 0) -> dict[str, bytes]:
    """Return the four files of a tiny set: 9 training and 6 test images of 2 x 3 pixels, 3 classes."""
    pixels = np.arange(90, dtype=np.uint8) + np.uint8(shift)
    labels = ((np.arange(15) + shift) % 3).astype(np.uint8)
    train, test = pixels[:54].reshape(9, 2, 3), pixels[54:].reshape(6, 2, 3)
    return dict(zip(NAMES, map(idx, (train, labels[:9], test, labels[9:])), strict=True))


def write(folder: Path, files: dict[str, bytes], *, packed: bool = False) -> list[Path]:
    """Write *files* into *folder*, compressed if *packed*, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return [folder / (f"{name}.gz" if packed else name) for name in files]


def known(folder: Path, shift: int = 0) -> ImageSet:
    """Return what is known of the tiny set, its digest from files written into *folder*."""
    files = contents(shift)
    facts = tuple(KnownFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items())
    tiny = ImageSet("tiny", facts, (2, 3), 9, 6, 3, "", folders=("tiny",))
    with pytest.raises(DataError) as caught:
        read_dataset(tiny, write(folder, files))
    return tiny._replace(digest=str(caught.value).partition("the digest of the data is ")[2][:64])


@pytest.fixture
def tiny(tmp_path: Path) -> ImageSet:
    """Return a tiny published set."""
    return known(tmp_path / "made")


def replaced(content: bytes, place: int, by: bytes) -> bytes:
    """Return *content* with the bytes at *place* replaced."""
    return content[:place] + by + content[place + len(by) :]


RAW = contents()[LABELS]
PACKED = gzip.compress(RAW)
PAGE = b"<!DOCTYPE html><html><body>404</body></html>"
DAMAGES = {  # what lies there in place of the training labels: end of the name, content, and how the sentence begins
    "empty": ("", b"", "the file is empty"),
    "raw cut": ("", RAW[:-3], "the content ends early"),
    "header cut": ("", RAW[:6], "the header ends early"),
    "wrong magic number": ("", replaced(RAW, 2, b"\x77"), "the magic number is 0x00007701"),
    "count above": ("", replaced(RAW, 7, b"\x0a"), "the content ends early"),
    "count below": ("", replaced(RAW, 7, b"\x08"), "the content has bytes after its end"),
    "negative size": ("", replaced(RAW, 4, b"\xff"), "the header gives a negative size"),
    "gz under a raw name": ("", PACKED, "the content is gzip-compressed, but"),
    "label 255": ("", replaced(RAW, 9, b"\xff"), "the label at index 1 is 255"),
    "label 3": ("", replaced(RAW, 16, b"\x03"), "the label at index 8 is 3"),
    "label -1": ("", idx(np.full(9, -1, np.int8), 0x09), "the label at index 0 is -1"),
    "fewer labels": ("", idx(np.zeros(8, np.uint8)), "8 labels do not fit the 9 images of"),
    "float labels": ("", idx(np.zeros(9, ">f4"), 0x0D), "labels are of type float32"),
    "images for labels": ("", contents()[NAMES[0]], "labels have 3 dimensions"),
    "page": ("", PAGE, "this is a web page"),
    "too large": ("", RAW + bytes(SLACK_BYTES + 1), "the file is too large"),
    "other labels": ("", replaced(RAW, 8, b"\x02"), "the content is not the published one"),
    "gz empty": (".gz", b"", "the file is empty"),
    "gz cut": (".gz", PACKED[:-9], "the gzip data end early"),
    "gz without check sum": (".gz", PACKED[:-4], "the gzip data end early"),
    "gz flipped": (".gz", replaced(PACKED, len(PACKED) - 6, b"\xff\xfe"), "the gzip data are damaged"),
    "gz bomb": (".gz", gzip.compress(bytes(SLACK_BYTES + 99)), "the gzip data unpack to more than"),
    "gz with other data behind": (".gz", PACKED + b"x", "the gzip data are damaged"),
    "raw under a gz name": (".gz", RAW, 'the name ends in ".gz", but'),
    "page under a gz name": (".gz", PAGE, "this is a web page"),
}


class TestReadDataset:
    """Reading the four files."""

    @pytest.mark.parametrize("packed", [False, True])
    def test_reads_raw_and_packed(self, tiny: ImageSet, tmp_path: Path, packed: bool) -> None:
        """Raw and compressed files give the published data, inputs uint8 and labels int64."""
        dataset = read_dataset(tiny, write(tmp_path / "other", contents(), packed=packed))

        assert dataset.train_inputs.shape == (9, 2, 3)
        assert dataset.train_inputs.flatten().tolist() == list(range(54))
        assert dataset.test_labels.tolist() == [0, 1, 2, 0, 1, 2]
        assert digest_of(dataset) == tiny.digest

    @pytest.mark.parametrize(("kind", "code"), [("u1", 0x08), ("i1", 0x09), (">i2", 0x0B), (">i4", 0x0C)])
    def test_label_types_make_no_difference(self, tiny: ImageSet, tmp_path: Path, kind: str, code: int) -> None:
        """Labels of another integer type are the same data: same digest, same labels."""
        labels = idx((np.arange(9) % 3).astype(kind), code)

        dataset = read_dataset(tiny, write(tmp_path / "other", {**contents(), LABELS: labels}))

        assert dataset.train_labels.tolist() == [0, 1, 2] * 3

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_damaged_files_are_refused(self, tiny: ImageSet, tmp_path: Path, damage: str) -> None:
        """Every damage is one sentence with file, expected and found size and SHA-256; nothing is downloaded in its place."""
        end, content, sentence = DAMAGES[damage]
        path = write(tmp_path / "tiny", contents())[1]
        path.unlink()
        path = path.with_name(path.name + end)
        path.write_bytes(content)
        environ = {"CONTILAB_DATA": str(tmp_path), "CONTILAB_CACHE": str(tmp_path / "cache")}

        with pytest.raises(DataError) as caught:
            read_dataset(tiny, locate(tiny, environ))

        fault = caught.value.faults[0]
        assert fault.place == str(path)
        assert fault.problem.startswith(sentence)
        assert f"expected 17 bytes with SHA-256 {tiny.files[1].sha256}" in fault.problem
        assert f"found {len(content)} bytes" in fault.problem
        assert hashlib.sha256(content).hexdigest() in fault.problem
        assert "\n" not in fault.problem
        assert not (tmp_path / "cache").exists()

    def test_images_of_another_shape_are_refused(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Images must have the published type and size of pixels."""
        paths = write(tmp_path / "other", {**contents(), NAMES[2]: idx(np.zeros((6, 3, 3), np.uint8))})

        with pytest.raises(DataError, match=r"uint8 values of shape \[6, 3, 3\] are not uint8 images of 2 x 3 pixels"):
            read_dataset(tiny, paths)

    def test_foreign_content_names_both_digests(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Files of the right form with other content are refused with the digest expected and the one found."""
        paths = write(tmp_path / "other", {**contents(), NAMES[2]: contents(1)[NAMES[2]]})

        with pytest.raises(DataError) as caught:
            read_dataset(tiny, paths)

        assert caught.value.faults[0].place == str(paths[2])
        assert tiny.digest in str(caught.value)
        assert tiny.files[2].sha256 in str(caught.value)

    def test_unreadable_file_is_refused(self, tiny: ImageSet, tmp_path: Path) -> None:
        """A path that cannot be read is a DataError with the reason of the system."""
        paths = [*write(tmp_path / "other", contents())[:3], tmp_path]

        with pytest.raises(DataError, match="cannot be read: Is a directory"):
            read_dataset(tiny, paths)

    @settings(max_examples=100)
    @given(
        st.booleans(),
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 99), st.binary(min_size=1, max_size=5)), max_size=4),
        st.integers(0, 99),
    )
    def test_any_damage_ends_in_our_error_or_in_an_array(
        self, tmp_path_factory: pytest.TempPathFactory, is_named: bool, is_packed: bool, changes: list[Any], keep: int
    ) -> None:
        """However a raw or packed file is changed and cut, whatever its name says, it is refused or read whole."""
        data = bytearray(PACKED if is_packed else RAW)
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values
        path = tmp_path_factory.getbasetemp() / ("fuzzed.gz" if is_named else "fuzzed")
        path.write_bytes(bytes(data[: keep or None]))

        try:
            file = read(path, KnownFile(LABELS, len(RAW), hashlib.sha256(RAW).hexdigest()))
        except DataError as error:
            assert error.faults[0].place == str(path)  # noqa: PT017
        else:
            assert len(file.content) == 4 + 4 * file.array.ndim + file.array.nbytes


class TestLocate:
    """Where files are looked for."""

    @pytest.mark.parametrize("place", ["", "tiny"])
    def test_finds_folders_of_the_environment(self, tiny: ImageSet, tmp_path: Path, place: str) -> None:
        """Every folder of CONTILAB_DATA is searched, itself and below it the folders named after the set."""
        paths = write(tmp_path / "b" / place, contents(), packed=True)

        assert locate(tiny, {"CONTILAB_DATA": os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")])}) == paths

    def test_older_names_are_found(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Copies that spell the name with a dot are found too."""
        write(tmp_path / "old", {name.replace("-idx", ".idx"): content for name, content in contents().items()})

        assert read_dataset(tiny, locate(tiny, {"CONTILAB_DATA": str(tmp_path / "old")})).classes == 3

    def test_folder_of_another_set_is_passed_over(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Sets share their file names; a folder that holds another published set is not taken for this one."""
        other = known(tmp_path / "made other", 1)
        write(tmp_path / "other", contents(1))
        paths = write(tmp_path / "system", contents())
        environ = {"CONTILAB_DATA": str(tmp_path / "other")}

        assert locate(tiny._replace(system=(tmp_path / "system",)), environ, [tiny, other]) == paths

    def test_incomplete_folder_is_refused(self, tiny: ImageSet, tmp_path: Path) -> None:
        """A folder with only some of the files is refused, naming what is missing."""
        write(tmp_path / "tiny", {LABELS: contents()[LABELS]})

        with pytest.raises(
            DataError, match=f"tiny is incomplete: {NAMES[0]}, {NAMES[2]}, {NAMES[3]} not found beside {LABELS}"
        ):
            locate(tiny, {"CONTILAB_DATA": str(tmp_path)})

    def test_nothing_found_names_the_variable(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Without files and mirror the message lists the folders and names CONTILAB_DATA."""
        with pytest.raises(DataError) as caught:
            locate(tiny, {"CONTILAB_DATA": str(tmp_path / "none"), "CONTILAB_CACHE": str(tmp_path / "cache")})

        assert str(tmp_path / "none" / "tiny") in str(caught.value)
        assert "CONTILAB_DATA" in caught.value.faults[0].hint
