"""The two published forms of CIFAR's batch files: python pickles and binary records.

Source: Krizhevsky, "The CIFAR-10 and CIFAR-100 datasets". An image is 3 x 1024 bytes: red, green and blue planes, row by row.
A binary record of CIFAR-10 is a label byte and an image, one of CIFAR-100 a coarse label, a fine label and an image. A pickle
holds the images under "data" [N, 3072] and the labels under "labels", or "fine_labels" for CIFAR-100.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from contilab.data import labels, restricted_pickle

PIXELS = 3 * 32 * 32
SHAPE = (3, 32, 32)

Part = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images [N, C, H, W], labels [N]
Parse = Callable[[bytes], Part]


def binary(classes: int, label_bytes: int) -> Parse:
    """Return what reads records with *label_bytes* bytes of labels, of which the last one counts.

    What it returns raises ValueError, with what is wrong in one clause.

    >>> binary(10, 1)(bytes([7]) + bytes(3072))[1].tolist()
    [7]
    """

    def parse(content: bytes) -> Part:
        size = label_bytes + PIXELS
        if not content or len(content) % size:
            raise ValueError(f"{len(content)} bytes are no whole number of records of {size} bytes")
        records = np.frombuffer(content, np.uint8).reshape(-1, size)
        return records[:, label_bytes:].reshape(-1, *SHAPE), labels.checked(records[:, label_bytes - 1], classes)

    return parse


def pickled(classes: int, label_key: str) -> Parse:
    """Return what reads a pickled batch with labels under *label_key*; it raises ValueError as `binary`'s does."""

    def parse(content: bytes) -> Part:
        table = restricted_pickle.load(content)
        if missing := [key for key in ("data", label_key) if key not in table]:
            raise ValueError(f'the pickle has no "{missing[0]}" but {_names(table)}')
        images, targets = table["data"], table[label_key]
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != PIXELS:
            raise ValueError(f'"data" are {_kind(images)}, not uint8 values of shape [N, {PIXELS}]')
        checked = labels.checked(_integers(targets, label_key), classes)
        if len(checked) != len(images):
            raise ValueError(f"{len(checked)} labels do not fit {len(images)} images")
        return np.ascontiguousarray(images).reshape(-1, *SHAPE), checked

    return parse


def _integers(targets: object, label_key: str) -> NDArray[np.generic]:
    if isinstance(targets, np.ndarray):
        return targets
    if isinstance(targets, list) and all(type(label) is int and abs(label) < 2**62 for label in targets):
        return np.array(targets, np.int64)
    raise ValueError(f'"{label_key}" are no list of integers')


def _names(table: dict[str, object]) -> str:
    return ", ".join(f'"{name[:20]}"' for name in sorted(table)[:8]) or "nothing"


def _kind(value: object) -> str:
    return (
        f"{value.dtype} values of shape {list(value.shape)}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    )
