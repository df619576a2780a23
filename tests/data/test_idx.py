"""The IDX parser: what it accepts, and that every damaged form is refused with its own sentence."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contilab.data.idx import TYPES, parse


def idx(code: int, shape: tuple[int, ...], values: bytes) -> bytes:
    """Return the bytes of an IDX file."""
    return bytes([0, 0, code, len(shape)]) + struct.pack(f">{len(shape)}i", *shape) + values


class TestParse:
    """What `parse` returns and refuses."""

    @pytest.mark.parametrize("code", sorted(TYPES))
    def test_reads_every_type(self, code: int) -> None:
        """Values of each type of the format come out equal, in native byte order and writable."""
        values = np.array([[1, 2, 3], [4, 5, 6]], dtype=TYPES[code])

        array = parse(idx(code, (2, 3), values.tobytes()))

        assert array.tolist() == values.tolist()
        assert array.dtype.isnative
        assert array.flags.writeable

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            pytest.param(b"", "the file is empty", id="empty"),
            pytest.param(b"\0\0\x08", "3 bytes are too few", id="three bytes"),
            pytest.param(b"\n<!DOCTYPE html><html>404</html>", "this is a web page", id="page"),
            pytest.param(b"<HTML><body>Not found</body></HTML>", "this is a web page", id="old page"),
            pytest.param(b"\x89PNG\r\n\x1a\n", "the magic number is 0x89504e47", id="foreign"),
            pytest.param(idx(0x07, (3,), b"abc"), "the magic number is 0x00000701", id="unknown type"),
            pytest.param(b"\0\0\x08\0", "the magic number is 0x00000800", id="no dimension"),
            pytest.param(b"\0\0\x08\xff" + bytes(2000), "the magic number is 0x000008ff", id="255 dimensions"),
            pytest.param(b"\0\0\x08\x03\0\0\0\x01", "the header ends early", id="header cut"),
            pytest.param(idx(0x08, (4,), b"abc"), "the content ends early", id="count above the data"),
            pytest.param(idx(0x08, (2,), b"abc"), "the content has bytes after its end", id="count below the data"),
            pytest.param(idx(0x08, (-1,), b"abc"), "the header gives a negative size: -1", id="negative size"),
            pytest.param(idx(0x08, (-1, -3), b"abc"), "the header gives a negative size: -1 x -3", id="negative sizes"),
            pytest.param(idx(0x0E, (2**31 - 1,) * 4, b"abc"), "the content ends early", id="huge sizes"),
        ],
    )
    def test_refuses(self, content: bytes, sentence: str) -> None:
        """Anything but exactly one array is a ValueError that says what is wrong; a header's claim takes no memory."""
        with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(")):
            parse(content)

    @given(st.binary(max_size=60))
    def test_any_bytes_are_an_array_or_a_sentence(self, content: bytes) -> None:
        """Whatever the bytes, the outcome is an array of just these values or a ValueError."""
        try:
            array = parse(content)
        except ValueError:
            return

        assert len(content) == 4 + 4 * array.ndim + array.nbytes
