"""The IDX format of MNIST and its relatives: a magic number, big-endian sizes, then the values.

Source: LeCun, Cortes, Burges, "The MNIST database", section "File formats". The magic number is two zero bytes, a type code and
the number of dimensions; each size is a signed 32-bit integer. Nothing is believed before it is checked against the bytes.
"""

import math

import numpy as np
from numpy.typing import NDArray

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_DIMENSIONS = 4  # chosen: batches of colour images; the format itself allows 255


def parse(content: bytes) -> NDArray[np.generic]:
    """Return the array that *content* holds, in native byte order and writable.

    Raises ValueError, with what is wrong in one clause, for anything that is not exactly one IDX array.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9])).tolist()
    [7, 0, 9]
    """
    kind, shape = _header(content)
    start = 4 + 4 * len(shape)
    wanted = start + math.prod(shape) * kind.itemsize
    if len(content) != wanted:
        what = "ends early" if len(content) < wanted else "has bytes after its end"
        raise ValueError(
            f"the content {what}: the header promises {_text(shape)} values, so {wanted} bytes, not {len(content)}"
        )
    return np.frombuffer(content, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))


def _header(content: bytes) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    if not content:
        raise ValueError("the file is empty")
    if content[:512].lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ValueError("this is a web page, probably an error page saved under the name of the data")
    if len(content) < 4:
        raise ValueError(f"{len(content)} bytes are too few for the magic number of IDX")
    if content[:2] != b"\0\0" or content[2] not in TYPES or not 1 <= content[3] <= MAX_DIMENSIONS:
        raise ValueError(
            f"the magic number is 0x{content[:4].hex()}, which is not IDX (0x00000803 for images, 0x00000801 for labels)"
        )
    if len(content) < 4 + 4 * content[3]:
        raise ValueError(f"the header ends early: {content[3]} sizes do not fit in {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">i4", count=content[3], offset=4))
    if min(shape) < 0:
        raise ValueError(f"the header gives a negative size: {_text(shape)}")
    return np.dtype(TYPES[content[2]]), shape


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
