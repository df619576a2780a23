"""Arrays of one's own in .npz and .safetensors files: what is read, and that nothing else gets through."""

import io
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.arrays import read_arrays
from contilab.data.digest import digest_of
from contilab.errors import DataError

ARRAYS: dict[str, np.ndarray] = {
    "train_inputs": np.arange(6 * 12, dtype=np.uint8).reshape(6, 3, 2, 2),
    "train_labels": np.array([0, 1, 2, 0, 1, 2]),
    "test_inputs": np.arange(2 * 12, dtype=np.uint8).reshape(2, 3, 2, 2),
    "test_labels": np.array([1, 2]),
}


def put(folder: Path, end: str = ".npz", **changed: Any) -> Path:
    """Write the arrays, some of them *changed* or left out (None), and return the path."""
    arrays = {name: array for name, array in {**ARRAYS, **changed}.items() if array is not None}
    path = folder / f"own{end}"
    if end == ".npz":
        np.savez(path, **arrays)
    else:
        safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    return path


def put_header(folder: Path, header: str) -> Path:
    """Write the arrays, the first one with *header* before its values, and return the path."""
    out = io.BytesIO()
    np.lib.format.write_array(out, ARRAYS["train_inputs"])
    content, path = out.getvalue(), put(folder, train_inputs=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("train_inputs.npy", content[:10] + header.ljust(117).encode() + b"\n" + content[128:])
    return path


SEEDS = ["{'descr': '|u1', 'fortran_order': False, ", "N': "]  # a table and a text that do not end


class TestReadArrays:
    """What is read."""

    @pytest.mark.parametrize("end", [".npz", ".safetensors"])
    def test_both_files_hold_the_same_data(self, tmp_path: Path, end: str) -> None:
        """Inputs come as they are, labels as int64, classes are those of the labels."""
        dataset = read_arrays(put(tmp_path, end), "own")

        assert np.array_equal(dataset.train_inputs.numpy(), ARRAYS["train_inputs"])
        assert dataset.test_labels.tolist() == [1, 2]
        assert (dataset.name, dataset.classes) == ("own", 3)

    def test_compressed_and_transposed_files_are_read(self, tmp_path: Path) -> None:
        """Compression and the order in memory make no difference."""
        path = tmp_path / "own.npz"
        np.savez_compressed(path, **{**ARRAYS, "train_inputs": np.asfortranarray(ARRAYS["train_inputs"])})

        assert np.array_equal(read_arrays(path, "own").train_inputs.numpy(), ARRAYS["train_inputs"])

    def test_names_and_layout_of_keras_are_understood(self, tmp_path: Path) -> None:
        """`x_train` and the like, channels last and labels with a second axis are taken for what they are."""
        inputs = {
            "x_train": ARRAYS["train_inputs"].transpose(0, 2, 3, 1),
            "x_test": ARRAYS["test_inputs"].transpose(0, 2, 3, 1),
        }
        targets = {"y_train": ARRAYS["train_labels"][:, None], "y_test": ARRAYS["test_labels"][:, None]}
        np.savez(tmp_path / "own.npz", **inputs, **targets)

        dataset = read_arrays(tmp_path / "own.npz", "own")

        assert np.array_equal(dataset.train_inputs.numpy(), ARRAYS["train_inputs"])
        assert dataset.train_labels.tolist() == [0, 1, 2, 0, 1, 2]

    @pytest.mark.parametrize("kind", ["float16", "float32", "float64", ">f4"])
    def test_floats_become_float32(self, tmp_path: Path, kind: str) -> None:
        """Every float type gives the same data, of any shape."""
        inputs = np.arange(12).reshape(6, 2) / 4

        dataset = read_arrays(put(tmp_path, train_inputs=inputs.astype(kind), test_inputs=inputs[:2].astype(kind)), "own")

        assert str(dataset.train_inputs.dtype) == "torch.float32"
        assert dataset.train_inputs.tolist() == inputs.tolist()

    @pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
    def test_label_types_make_no_difference(self, tmp_path: Path, kind: str) -> None:
        """Labels of every integer type are the same labels, so data of one digest, and runs of one address."""
        dataset = read_arrays(put(tmp_path, train_labels=ARRAYS["train_labels"].astype(kind)), "own")

        assert dataset.train_labels.tolist() == [0, 1, 2, 0, 1, 2]
        assert digest_of(dataset) == digest_of(read_arrays(put(tmp_path), "own"))


FLOATS = np.ones((6, 2))
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "array missing": ({"test_labels": None}, "test_labels not found among test_inputs, train_inputs, train_labels"),
    "label -1": ({"train_labels": np.array([0, 1, 2, 0, -1, 2])}, "train_labels: the label at index 4 is -1"),
    "arrays of other names": (
        {**dict.fromkeys(ARRAYS), "images": FLOATS, "labels": ARRAYS["train_labels"]},
        "train_inputs, train_labels, test_inputs, test_labels not found among images, labels",
    ),
    "array twice": ({"y_test": np.array([2, 1])}, "test_labels and y_test are two arrays for one thing"),
    "label as large as the classes": ({"test_labels": np.array([1, 3])}, "no training sample has the label 3"),
    "label unused": ({"train_labels": np.array([0, 0, 2, 0, 0, 2])}, "no training sample has the label 1"),
    "labels of words": (
        {"test_labels": np.array(["a", "b"])},
        "test_labels are <U1 of shape [2], expected one integer for each",
    ),
    "one label for all": ({"train_labels": np.array(1)}, "train_labels are int64 of shape [], expected one integer for each"),
    "labels of floats": ({"train_labels": np.array([0.0, 1, 2, 0, 1, 2])}, "train_labels: labels are of type float64"),
    "enormous label": ({"train_labels": np.array([0, 1, 2, 0, 1, 2**60])}, "train_labels: the label at index 5 is 1152"),
    "a label more than is recorded": ({"test_labels": np.array([1, 2**15])}, "labels are 0 to 32767"),
    "labels that are no numbers": ({"test_labels": np.array([1, np.nan])}, "test_labels: labels are of type float64"),
    "fewer labels": ({"train_labels": np.array([0, 1, 2])}, "train_labels are 3 labels for 6 inputs"),
    "integers": ({"train_inputs": FLOATS.astype(int), "test_inputs": FLOATS[:2].astype(int)}, "expected uint8 or floats"),
    "other shape": ({"test_inputs": np.zeros((2, 3, 2, 3), np.uint8)}, "expected one type and shape"),
    "other type": ({"test_inputs": np.zeros((2, 3, 2, 2))}, "expected one type and shape"),
    "one axis": ({"train_inputs": np.zeros(6)}, "expected [N, ...] with at least one value"),
    "nothing": ({"test_inputs": np.zeros((0, 3, 2, 2), np.uint8)}, "with at least one value"),
    "not a number": ({"train_inputs": FLOATS * [[1, np.nan]], "test_inputs": FLOATS[:2]}, "index 0 are not all finite"),
    "too large": ({"train_inputs": FLOATS * 1e200, "test_inputs": FLOATS[:2]}, "not all finite in float32"),
    "objects": ({"train_labels": np.array([None] * 6)}, "Python objects"),
    "text": ({"train_labels": np.array(["a"] * 6)}, "is no data set"),
}


class TestRefusals:
    """What is refused."""

    @pytest.mark.parametrize("case", WRONG)
    def test_arrays_of_another_form(self, tmp_path: Path, case: str) -> None:
        """What is no data set is refused with file, array, what was expected and what was found."""
        changed, sentence = WRONG[case]

        with pytest.raises(DataError) as caught:
            read_arrays(put(tmp_path, **changed), "own")

        assert caught.value.faults[0].place == str(tmp_path / "own.npz")
        assert sentence in caught.value.faults[0].problem
        assert "train_inputs" in caught.value.faults[0].hint

    @pytest.mark.parametrize("end", [".npz", ".safetensors"])
    @pytest.mark.parametrize("content", [b"", b"PK", b"<html>404</html>", b"\xff" * 20, (2**40).to_bytes(8, "little") + b"{}"])
    def test_other_files(self, tmp_path: Path, end: str, content: bytes) -> None:
        """Empty, cut and foreign files are refused."""
        (tmp_path / f"own{end}").write_bytes(content)

        with pytest.raises(DataError, match="is no data set"):
            read_arrays(tmp_path / f"own{end}", "own")

    def test_packing_that_unpacks_at_once_is_refused(self, tmp_path: Path) -> None:
        """An array packed so that its size cannot be watched while it is unpacked is refused by its name."""
        path = put(tmp_path, test_labels=None)
        with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
            archive.writestr("test_labels.npy", b"")

        with pytest.raises(DataError, match=r'"test_labels\.npy" is packed by method 14 of zip, expected 0 or 8'):
            read_arrays(path, "own")

    @pytest.mark.parametrize("end", [".npz", ".safetensors"])
    def test_arrays_larger_than_memory_are_refused_before_they_are_read(self, tmp_path: Path, end: str) -> None:
        """What takes more than is left is refused with both numbers, as a lack of the machine and not a fault of the file."""
        path = put(tmp_path, end)
        with zipfile.ZipFile(path) if end == ".npz" else nullcontext() as archive:
            needed = sum(entry.file_size for entry in archive.infolist()) if archive else path.stat().st_size

        with pytest.raises(
            DataError, match=f"own{end}: its arrays take {needed} bytes of memory, and {needed - 1} are left"
        ) as caught:
            read_arrays(path, "own", lambda: needed - 1)

        assert isinstance(caught.value.__cause__, MemoryError)
        assert read_arrays(path, "own", lambda: needed).classes == 3

    @pytest.mark.parametrize(
        ("inputs", "taken"),
        [
            pytest.param(np.zeros((6, 9, 9), np.float16), 6 * 9 * 9 * 4, id="floats of 16 bits"),
            pytest.param(np.zeros((6, 9, 9, 3), np.uint8), 6 * 9 * 9 * 3, id="channels last"),
            pytest.param(np.zeros((6, 9, 9), np.uint8), None, id="as they are kept"),
        ],
    )
    def test_forms_that_are_changed_need_room_for_it(self, tmp_path: Path, inputs: np.ndarray, taken: int | None) -> None:
        """Arrays that are kept in another form than their file has need memory for both; others for one."""
        path, asked = put(tmp_path, train_inputs=inputs, test_inputs=inputs[:2]), [0]

        def left() -> int:
            asked[0] += 1
            return 2**40 if asked[0] == 1 else 1

        if taken is None:
            assert read_arrays(path, "own", left).classes == 3
        else:
            with pytest.raises(DataError, match=f"its arrays take {taken:,} bytes of memory, and 1 are left"):
                read_arrays(path, "own", left)

    @pytest.mark.parametrize("shape", ["(99999999999, 3, 2, 2)", "(-1,)", "(6,)", "(2, 9223372036854775807)"])
    def test_header_cannot_ask_for_more_than_there_is(self, tmp_path: Path, shape: str) -> None:
        """A shape that the bytes do not fill is refused, and no memory is taken for it."""
        path = put_header(tmp_path, f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}")

        with pytest.raises(DataError, match="is no data set"):
            read_arrays(path, "own")

    @pytest.mark.parametrize("header", SEEDS)
    def test_headers_that_a_fuzzer_found(self, tmp_path: Path, header: str) -> None:
        """Headers at which numpy's reader raises what it does not say that it raises are refused as all others."""
        with pytest.raises(DataError, match="is no data set"):
            read_arrays(put_header(tmp_path, header), "own")

    def test_header_of_python_2(self, tmp_path: Path) -> None:
        """Sizes that Python 2 wrote as long integers are read, without a warning."""
        path = put_header(tmp_path, "{'descr': '|u1', 'fortran_order': False, 'shape': (6L, 3L, 2L, 2L), }")

        assert read_arrays(path, "own").train_inputs.shape == (6, 3, 2, 2)

    @settings(max_examples=200)
    @given(
        st.sampled_from([".npz", ".safetensors"]),
        st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=6)), min_size=1, max_size=5),
        st.integers(0, 3000),
    )
    def test_any_damage_ends_in_our_error_or_in_valid_data(
        self, tmp_path_factory: pytest.TempPathFactory, end: str, changes: list[tuple[int, bytes]], keep: int
    ) -> None:
        """However a file is changed and cut, it is refused, or its data have a valid form."""
        path = put(tmp_path_factory.getbasetemp(), end)
        data = bytearray(path.read_bytes())
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values
        path.write_bytes(bytes(data[: keep or None]))

        try:
            dataset = read_arrays(path, "own")
        except DataError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert 0 <= int(dataset.train_labels.min()) <= int(dataset.train_labels.max()) < dataset.classes
            assert bool(dataset.train_inputs.float().isfinite().all())
