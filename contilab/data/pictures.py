"""Decoding image files, by Pillow (the extra `images`), which is loaded only where a picture is read."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contilab.errors import DataError, RefusedStart

ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")  # others are read by code that few people test
MOST_PIXELS = 4096 * 4096  # of one picture; chosen: data sets of pictures are far smaller, bombs are larger
INSTALL = "pip install 'contilab[images]' brings Pillow, which reads pictures"
FAILURES = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError,
            NotImplementedError, AttributeError, RuntimeError, struct.error, zlib.error)  # fmt: skip


class Picture:
    """A decoded picture: *pixels* [3, H, W] uint8, and whether the file has no colours."""

    __slots__ = ("is_grey", "pixels")

    def __init__(self, pixels: NDArray[np.uint8], *, is_grey: bool) -> None:
        self.pixels, self.is_grey = pixels, is_grey


def decode(content: bytes, place: str, *, size: int | None = None) -> Picture:
    """Return the picture in *content*, made *size* x *size* pixels if that is given (bilinear, from the whole picture).

    Raises DataError, naming *place*, if it is none, is cut or too large, and RefusedStart if Pillow is not installed.
    """
    image_module = _pillow(place)
    try:
        with image_module.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if not 0 < width * height <= MOST_PIXELS:
                raise ValueError(f"it has {width} x {height} pixels, expected at most {MOST_PIXELS:,}")
            is_grey = image.mode in ("1", "L")
            image = image.convert("RGB")  # noqa: PLW2901 - the file is closed by its own name
            if size is not None and image.size != (size, size):
                image = image.resize((size, size), image_module.Resampling.BILINEAR)  # noqa: PLW2901
            pixels = np.asarray(image, np.uint8).transpose(2, 0, 1)
    except (*FAILURES, image_module.DecompressionBombError) as error:
        hint = "replace or remove that file"
        is_foreign = isinstance(error, image_module.UnidentifiedImageError)  # its text shows an address in memory
        reason = f"it is none of {', '.join(FORMATS)}" if is_foreign else str(error) or type(error).__name__
        raise DataError(place, f"is no picture that can be read: {reason}", hint=hint) from error
    return Picture(np.ascontiguousarray(pixels), is_grey=is_grey)


def _pillow(place: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise RefusedStart(place, "is a picture, and Pillow is not installed", hint=INSTALL) from error
    return Image
