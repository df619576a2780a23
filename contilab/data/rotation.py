"""Rotating 8-bit images about their centre: bilinear between the four pixels around, zero outside the image.

Weights are multiples of 2^-16 and sums are of integers, so the same bytes come out on every machine.
"""

import math

import numpy as np
from numpy.typing import NDArray

from contilab.data.transformed import Images

ONE = 2**16  # a weight of one
CHUNK = 4096  # images at a time: their sums are four times as large


def rotated(images: Images, degrees: float) -> Images:
    """Return *images* [n, H, W] turned counter-clockwise by *degrees*, flat: [n, H x W].

    >>> rotated(np.array([[[1, 2], [3, 4]]], dtype=np.uint8), 90.0).tolist()
    [[2, 4, 1, 3]]
    """
    height, width = images.shape[1:]
    places, weights = _sources(height, width, degrees)
    padded = np.zeros((len(images), height * width + 1), np.int64)  # the last place is outside
    padded[:, :-1] = images.reshape(len(images), -1)
    turned = np.empty((len(images), height * width), np.uint8)
    for start in range(0, len(images), CHUNK):
        part = slice(start, start + CHUNK)
        total = sum(padded[part][:, places[corner]] * weights[corner] for corner in range(4))
        turned[part] = (total + ONE // 2) // ONE
    return turned


def _sources(height: int, width: int, degrees: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each of four corners, the pixel [H x W] that a place takes from and the weight it has there."""
    cosine, sine = _exact(math.cos(math.radians(degrees))), _exact(math.sin(math.radians(degrees)))
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    y, x = rows - (height - 1) / 2, columns - (width - 1) / 2
    from_row = (sine * x + cosine * y + (height - 1) / 2).ravel()
    from_column = (cosine * x - sine * y + (width - 1) / 2).ravel()
    top, left = np.floor(from_row), np.floor(from_column)
    down, right = (np.rint((at - floor) * 256).astype(np.int64) for at, floor in ((from_row, top), (from_column, left)))
    places, weights = [], []
    for below in (0, 1):
        for beside in (0, 1):
            row, column = top + below, left + beside
            is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            places.append(np.where(is_inside, row * width + column, height * width).astype(np.int64))
            weights.append((down if below else 256 - down) * (right if beside else 256 - right))
    return np.stack(places), np.stack(weights)


def _exact(value: float) -> float:
    """Return *value* without the last bits, in which C libraries differ, so that 90 degrees are exactly a quarter."""
    return round(value * 2**40) / 2**40
