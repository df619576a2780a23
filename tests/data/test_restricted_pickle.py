"""Pickles as data: CIFAR's are read, and no pickle runs anything."""

import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contilab.data.restricted_pickle import load

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 12)
TABLE = {b"data": IMAGES, b"labels": [3, 1], b"filenames": [b"a.png", b"b.png"], b"batch_label": b"batch 1"}
# As Python 2 writes it in protocol 2 with numpy 1.x: the form of the published files.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
    b"(K\x01K\x02K\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00"
    b"tb\x89U\x18" + IMAGES.tobytes() + b"tbU\x06labelsq\x08]q\t(K\x03K\x01eu."
)


class Runs:
    """An object whose pickle runs a command when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Say how it is made."""
        return os.system, (f"touch {self.path}",)


class TestLoad:
    """What `load` returns."""

    @pytest.mark.parametrize("protocol", range(6))
    def test_reads_batches_of_every_protocol(self, protocol: int) -> None:
        """A table with an array and lists is what it was, whichever protocol wrote it; keys become text."""
        found = load(pickle.dumps(TABLE, protocol))

        assert np.array_equal(found["data"], IMAGES)
        assert found["data"].dtype == np.uint8
        assert found["labels"] == [3, 1]

    def test_reads_what_python_2_wrote(self) -> None:
        """The form of the published files is read: byte strings, and numpy's old module names."""
        found = load(PYTHON_2)

        assert sorted(found) == ["data", "labels"]
        assert np.array_equal(found["data"], IMAGES)
        assert found["labels"] == [3, 1]

    @pytest.mark.parametrize("array", [np.asfortranarray(IMAGES), IMAGES.astype(">i4"), IMAGES.astype("<i8")])
    @pytest.mark.parametrize("protocol", [2, 4, 5])
    def test_arrays_keep_their_values(self, array: np.ndarray, protocol: int) -> None:
        """Order in memory and byte order make no difference to the values."""
        assert np.array_equal(load(pickle.dumps({"data": array}, protocol))["data"], IMAGES)


class TestRefusals:
    """What `load` refuses."""

    @pytest.mark.parametrize("protocol", range(6))
    def test_hostile_pickles_run_nothing(self, tmp_path: Path, protocol: int) -> None:
        """A pickle that would run a command is refused by the name it asks for, and the command does not run."""
        with pytest.raises(ValueError, match="which is no data: it may be hostile, and nothing of it was run"):
            load(pickle.dumps({"data": Runs(tmp_path / "ran")}, protocol))

        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "content",
        [
            b"cos\nsystem\n(S'true'\ntR.",
            b"(S'true'\nios\nsystem\n.",
            b"cbuiltins\neval\n(S'1'\ntR.",
            b"cnumpy\nload\n(S'x'\ntR.",
            b"cnumpy.testing\nruns\n.",
            b"\x80\x02cnumpy\nndarray\n)\x81.",
            b"\x80\x04\x8c\x05numpy\x8c\x0cdtype.__init__\x93.",
            b"Pid\n.",
            b"\x80\x02cnumpy\ndtype\n}b.",
            b"\x80\x02cnumpy\ndtype\nN}U\x04nameU\x01xs\x86b.",
        ],
    )
    def test_other_names_and_objects(self, content: bytes) -> None:
        """No other name, no object and no change of a name gets through, however it is asked for."""
        with pytest.raises(ValueError, match="pickle"):
            load(content)

    @pytest.mark.parametrize(
        "content",
        [
            b"\x80\x02]r\xff\xff\xff\x7f.",  # remembers a thing at place 2^31: the unpickler would make a list as long
            b"\x80\x05\x96\xff\xff\xff\xff\xff\x0f\x00\x00.",  # a bytearray of 16 TB
            b"\x80\x04\x8e\xff\xff\xff\xff\xff\x0f\x00\x00.",
            b"I" + b"9" * 4000 + b"\n.",
            b"(" * 100_000 + b".",
            b"",
            b".",
            b"\x80\x09.",
            pickle.dumps([1, 2]),
            pickle.dumps({1: 2}),
            pickle.dumps({"data": np.array([None, 1])}),
            pickle.dumps({"data": np.array([1.5])}),
            pickle.dumps(TABLE)[:-30],
        ],
    )
    def test_what_is_no_table_of_integers(self, content: bytes) -> None:
        """Bombs, cut pickles, other values and objects in arrays are refused in one clause."""
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            load(content)

    def test_nested_references_are_not_followed(self) -> None:
        """Lists that hold each other a billion times over are refused at once: nothing goes through what it does not need."""
        laughs = b"".join(b"(" + b"h\x01" * 9 + b"lq\x01" for _ in range(60))
        nested = b"\x80\x02" + b"K\x00q\x01" + laughs
        array = b"U\x04datacnumpy.core.multiarray\n_reconstruct\n)R(K\x01h\x01cnumpy\ndtype\n(h\x01tRh\x01U\x00tbs."

        with pytest.raises(ValueError, match="an array"):
            load(nested + b"0}" + array)

    def test_shape_must_fit_the_bytes(self) -> None:
        """An array that promises more values than it has bytes for is refused."""
        content = PYTHON_2.replace(b"K\x02K\x0c\x86", b"K\x02K\x0d\x86")

        with pytest.raises(ValueError, match="cannot reshape"):
            load(content)

    @settings(max_examples=300)
    @given(
        st.sampled_from([PYTHON_2, *(pickle.dumps(TABLE, protocol) for protocol in range(6))]),
        st.lists(st.tuples(st.integers(0, 500), st.binary(min_size=1, max_size=4)), min_size=1, max_size=6),
    )
    @example(PYTHON_2, [(15, b"\\")])  # an escape that means nothing, of which Python warns
    def test_any_damage_is_a_value_error(self, content: bytes, changes: list[tuple[int, bytes]]) -> None:
        """However a pickle is changed, it is read as a table or refused with a ValueError."""
        data = bytearray(content)
        for place, values in changes:
            data[place % len(data) : place % len(data) + len(values)] = values

        try:
            found = load(bytes(data))
        except ValueError as error:
            assert str(error)  # noqa: PT017
        else:
            assert isinstance(found, dict)

    def test_example_is_what_it_says(self) -> None:
        """The hand-written pickle is a valid program for Python's own tools."""
        assert [opcode.name for opcode, _, _ in pickletools.genops(PYTHON_2)][-1] == "STOP"
