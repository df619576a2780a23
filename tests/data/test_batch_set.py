"""CIFAR's files in all forms and layouts, in small: what is read, and that cut, mislabelled and foreign ones are refused."""

import gzip
import hashlib
import io
import pickle
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.batch_set import BatchFile, BatchSet, Form, read_batches
from contilab.data.cifar import PIXELS, binary, pickled
from contilab.data.download import Remote, sha256_is
from contilab.data.published import CIFAR10, CIFAR100
from contilab.errors import DataError

ROWS = {"data_batch_1": 4, "data_batch_2": 4, "test_batch": 3}
GENERATOR = np.random.default_rng(0)
IMAGES = {name: GENERATOR.integers(0, 256, (rows, PIXELS), dtype=np.uint8) for name, rows in ROWS.items()}
LABELS = {name: [(index + 2) % 3 for index in range(rows)] for name, rows in ROWS.items()}


def binary_files() -> dict[str, bytes]:
    """Return the files of the small set in the binary form."""
    columns = {name: np.array(LABELS[name], np.uint8)[:, None] for name in ROWS}
    return {f"{name}.bin": np.hstack([columns[name], IMAGES[name]]).tobytes() for name in ROWS}


def python_files(protocol: int = 2) -> dict[str, bytes]:
    """Return the files of the small set in the python form."""
    return {name: pickle.dumps({"data": IMAGES[name], "labels": LABELS[name]}, protocol) for name in ROWS}


def form(folder: str, archive: str, parse: object, files: dict[str, bytes]) -> Form:
    """Return the form whose published content is *files*."""
    known = [BatchFile(name, ROWS[name.removesuffix(".bin")], hashlib.sha256(files[name]).hexdigest()) for name in files]
    return Form(folder, (archive,), parse, tuple(known[:2]), tuple(known[2:]))  # type: ignore[arg-type]


SMALL = BatchSet(
    name="small",
    image_shape=(3, 32, 32),
    classes=3,
    train_samples=8,
    test_samples=3,
    forms=(
        form("small-py", "small-python.tar.gz", pickled(3, "labels"), python_files()),
        form("small-bin", "small-binary.tar.gz", binary(3, 1), binary_files()),
    ),
    remote=Remote("small-binary.tar.gz", (), 10**6, sha256_is("")),
    folders=("small",),
)
FORMS = {"python": ("small-py", python_files()), "binary": ("small-bin", binary_files())}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write *files* into *folder* and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def packed(files: dict[str, bytes], folder: str) -> bytes:
    """Return *files* below *folder* as a packed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue())


class TestForms:
    """What is read."""

    @pytest.mark.parametrize("kind", FORMS)
    @pytest.mark.parametrize("layout", ["folder itself", "root", "root of sets", "archive", "folder of archives"])
    def test_every_form_and_layout_gives_the_same_data(self, tmp_path: Path, kind: str, layout: str) -> None:
        """Python and binary files, as folder or archive, at or below the path, are the same published data."""
        folder, files = FORMS[kind]
        archive = next(form.archives[0] for form in SMALL.forms if form.folder == folder)
        path = {"folder itself": tmp_path / folder, "archive": tmp_path / archive}.get(layout, tmp_path)
        if "archive" in layout:
            put(tmp_path, {archive: packed(files, folder)})
        else:
            put(tmp_path / ("small" if layout == "root of sets" else "") / folder, files)

        reading = read_batches(SMALL, path)

        assert reading is not None
        assert reading.is_published
        assert np.array_equal(reading.dataset.train_inputs.numpy().reshape(8, -1), np.vstack([*IMAGES.values()][:2]))
        assert reading.dataset.train_labels.tolist() == LABELS["data_batch_1"] + LABELS["data_batch_2"]
        assert reading.dataset.test_labels.tolist() == LABELS["test_batch"]
        assert reading.dataset.test_inputs.shape == (3, 3, 32, 32)

    @pytest.mark.parametrize("kind", FORMS)
    def test_other_content_of_the_same_form_is_read_and_said(self, tmp_path: Path, kind: str) -> None:
        """Files of the right form whose content is another are read, as not the published ones."""
        _, files = FORMS[kind]
        last = list(files)[-1]

        reading = read_batches(SMALL, put(tmp_path, {**files, last: files[last].replace(b"\x07", b"\x08")}))

        assert reading is not None
        assert not reading.is_published

    def test_newer_pickles_are_read(self, tmp_path: Path) -> None:
        """Batches that somebody wrote again with a newer Python are read."""
        reading = read_batches(SMALL, put(tmp_path, python_files(5)))

        assert reading is not None
        assert (reading.is_published, reading.dataset.test_labels.tolist()) == (False, LABELS["test_batch"])

    def test_nothing_there_is_nothing(self, tmp_path: Path) -> None:
        """Where no file of the set is, nothing is returned, so that other forms can be tried."""
        assert read_batches(SMALL, put(tmp_path, {"other": b""})) is None

    def test_records_of_two_labels(self) -> None:
        """CIFAR-100 has a coarse label before the fine one, which counts."""
        images, labels = binary(100, 2)(bytes([19, 77]) + bytes(range(256)) * 12)

        assert labels.tolist() == [77]
        assert images[0].ravel()[:3].tolist() == [0, 1, 2]

    @pytest.mark.parametrize("known", [CIFAR10, CIFAR100])
    def test_published_sets_are_whole(self, known: BatchSet) -> None:
        """Each form of a published set has all of its samples, and every file its own checksum."""
        for each in known.forms:
            assert sum(file.rows for file in each.train) == known.train_samples
            assert sum(file.rows for file in each.test) == known.test_samples
            assert len({file.sha256 for file in each.files}) == len(each.files)
            assert {len(file.sha256) for file in each.files} == {64}


BINARY, PYTHON = binary_files(), python_files()
FIRST = BINARY["data_batch_1.bin"]
DAMAGES = {
    "empty": ("data_batch_1.bin", b"", "0 bytes are no whole number of records of 3073 bytes"),
    "cut": ("data_batch_1.bin", FIRST[:-1], "12291 bytes are no whole number of records"),
    "record missing": ("data_batch_1.bin", FIRST[:-3073], "the file holds 3 samples, not 4"),
    "record too many": ("data_batch_1.bin", FIRST + FIRST[:3073], "the file holds 5 samples, not 4"),
    "label too large": ("data_batch_1.bin", b"\x03" + FIRST[1:], "the label at index 0 is 3, labels are 0 to 2"),
    "page": ("data_batch_1.bin", b"<html>404</html>", "16 bytes are no whole number"),
    "pickle cut": ("data_batch_1", PYTHON["data_batch_1"][:-9], "the pickle cannot be read"),
    "pickle empty": ("data_batch_1", b"", "the pickle cannot be read"),
    "pickle of a list": ("data_batch_1", pickle.dumps([1]), "the pickle holds a list, not a table"),
    "no labels": ("data_batch_1", pickle.dumps({"data": IMAGES["data_batch_1"]}), 'the pickle has no "labels" but "data"'),
    "float images": (
        "data_batch_1",
        pickle.dumps({"data": IMAGES["data_batch_1"].view(np.int8), "labels": [0] * 4}),
        '"data" are int8 values of shape [4, 3072]',
    ),
    "label of text": (
        "data_batch_1",
        pickle.dumps({"data": IMAGES["data_batch_1"], "labels": ["a"] * 4}),
        "no list of integers",
    ),
    "label -1": ("data_batch_1", pickle.dumps({"data": IMAGES["data_batch_1"], "labels": [0, -1, 0, 0]}), "at index 1 is -1"),
    "fewer labels": ("data_batch_1", pickle.dumps({"data": IMAGES["data_batch_1"], "labels": [0]}), "1 labels do not fit 4"),
    "hostile": ("data_batch_1", b"cos\nsystem\n(S'true'\ntR.", 'the pickle asks for "os.system"'),
}


class TestRefusals:
    """What is refused."""

    @pytest.mark.parametrize("case", DAMAGES)
    @pytest.mark.parametrize("is_packed", [False, True])
    def test_damaged_files(self, tmp_path: Path, case: str, is_packed: bool) -> None:
        """Every damage is one sentence with file, reason, and name, size and SHA-256 expected and found."""
        name, content, sentence = DAMAGES[case]
        files = {**(BINARY if name.endswith(".bin") else PYTHON), name: content}
        path = put(tmp_path, {"x.tar.gz": packed(files, "x")} if is_packed else files)

        with pytest.raises(DataError) as caught:
            read_batches(SMALL, path / "x.tar.gz" if is_packed else path)

        fault = caught.value.faults[0]
        assert fault.place.endswith(name)
        assert sentence in fault.problem
        assert f"expected {name} with SHA-256" in fault.problem
        assert f"found {len(content)} bytes with SHA-256 {hashlib.sha256(content).hexdigest()}" in fault.problem
        assert "\n" not in fault.problem

    @pytest.mark.parametrize("kind", FORMS)
    def test_incomplete_set(self, tmp_path: Path, kind: str) -> None:
        """A folder with only some of the files is refused by the names of the missing ones."""
        _, files = FORMS[kind]
        first, second, third = files

        with pytest.raises(DataError, match=f"small is incomplete: expected {second}, {third} beside {first}"):
            read_batches(SMALL, put(tmp_path, {first: files[first]}))

    def test_file_twice_in_an_archive(self, tmp_path: Path) -> None:
        """Which of two files of one name counts is not guessed."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for folder in ("a", "b"):
                info = tarfile.TarInfo(f"{folder}/test_batch")
                tar.addfile(info)
        path = put(tmp_path, {"x.tar": out.getvalue()}) / "x.tar"

        with pytest.raises(DataError, match='"test_batch" lies twice in the archive'):
            read_batches(SMALL, path)

    def test_unreadable_file(self, tmp_path: Path) -> None:
        """A file without rights is refused with the reason of the system, or read by who may read all."""
        path = put(tmp_path, BINARY)
        (path / "test_batch.bin").unlink()
        (path / "test_batch.bin").symlink_to(path / "loop")
        (path / "loop").symlink_to(path / "test_batch.bin")

        with pytest.raises(DataError, match="incomplete"):
            read_batches(SMALL, path)

    @settings(max_examples=150)
    @given(
        st.sampled_from(sorted(BINARY | PYTHON)),
        st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4),
        st.integers(0, 15_000),
    )
    def test_any_damage_ends_in_our_error_or_in_valid_data(
        self, tmp_path_factory: pytest.TempPathFactory, name: str, changes: list[tuple[int, bytes]], keep: int
    ) -> None:
        """However a batch is changed and cut, it is refused, or its data have the form of the set."""
        data = bytearray((BINARY | PYTHON)[name])
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values
        folder = tmp_path_factory.getbasetemp() / "fuzzed-batches"
        shutil.rmtree(folder, ignore_errors=True)
        put(folder, {**(BINARY if name.endswith(".bin") else PYTHON), name: bytes(data[: keep or None])})

        try:
            reading = read_batches(SMALL, folder)
        except DataError as error:
            assert str(folder) in str(error)  # noqa: PT017
        else:
            assert reading is not None
            assert reading.dataset.train_inputs.shape == (8, 3, 32, 32)
            assert 0 <= int(reading.dataset.train_labels.min()) <= int(reading.dataset.train_labels.max()) <= 2
