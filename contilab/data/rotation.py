"""Rotating 8-bit images about their centre: bilinear between the four pixels around, zero outside the image.

A place takes from four pixels with weights that are multiples of 2^-16 and sum to one. So all sums are integers below 2^24,
which float32 holds exactly in whatever order they are added, and the same bytes come out on every machine.
"""

import math

import numpy as np
from numpy.typing import NDArray

from contilab.data.transformed import Images

ONE = 2**8  # the weight of one along one axis
CHUNK = 8192  # images at a time, as floats


def rotated(images: Images, degrees: float) -> Images:
    """Return *images* [n, H, W] turned counter-clockwise by *degrees*, flat: [n, H x W].

    >>> rotated(np.array([[[1, 2], [3, 4]]], dtype=np.uint8), 90.0).tolist()
    [[2, 4, 1, 3]]
    """
    height, width = images.shape[1:]
    weights = _matrix(height, width, degrees)
    flat = images.reshape(len(images), -1)
    turned = np.empty_like(flat)
    for start in range(0, len(flat), CHUNK):
        part = slice(start, start + CHUNK)
        # numpy's product, not torch's: that one may be told to multiply in fewer bits
        turned[part] = ((flat[part].astype(np.float32) @ weights).astype(np.int32) + ONE * ONE // 2) // (ONE * ONE)
    return turned


def _matrix(height: int, width: int, degrees: float) -> NDArray[np.float32]:
    """Return the weights [H x W pixels, H x W places], nearly all of them zero: a product with them is still the fastest."""
    places, weights = _sources(height, width, degrees)
    matrix = np.zeros((height * width + 1, height * width), np.float32)  # the last pixel is outside
    for place, weight in zip(places, weights, strict=True):
        matrix[place, np.arange(height * width)] += weight
    return matrix[:-1]


def _sources(height: int, width: int, degrees: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each of four corners, the pixel [H x W] that a place takes from and the weight it has there."""
    cosine, sine = _exact(math.cos(math.radians(degrees))), _exact(math.sin(math.radians(degrees)))
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    y, x = rows - (height - 1) / 2, columns - (width - 1) / 2
    from_row = (sine * x + cosine * y + (height - 1) / 2).ravel()
    from_column = (cosine * x - sine * y + (width - 1) / 2).ravel()
    top, left = np.floor(from_row), np.floor(from_column)
    down, right = (np.rint((at - floor) * ONE).astype(np.int64) for at, floor in ((from_row, top), (from_column, left)))
    places, weights = [], []
    for below in (0, 1):
        for beside in (0, 1):
            row, column = top + below, left + beside
            is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            places.append(np.where(is_inside, row * width + column, height * width).astype(np.int64))
            weights.append((down if below else ONE - down) * (right if beside else ONE - right))
    return np.stack(places), np.stack(weights)


def _exact(value: float) -> float:
    """Return *value* without the last bits, in which C libraries differ, so that 90 degrees are exactly a quarter."""
    return round(value * 2**40) / 2**40
