"""Decoding image files, by Pillow (the extra `images`), which is loaded only where a picture is read."""

import io
import struct
import warnings
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contilab.data import jpeg
from contilab.errors import DataError, RefusedStart

ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")  # others are read by code that few people test
MOST_PIXELS = 4096 * 4096  # of one picture; chosen: data sets of pictures are far smaller, bombs are larger
MOST_BYTES = 4 * MOST_PIXELS + 2**20  # of its file: four bytes for each pixel
TILES = 322, 323  # tags of TIFF: width and height of what its reader unpacks at once, also beyond the picture's edge
BITS = 258  # tag of TIFF: of each channel's values
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

    What the reader warns of is the file's affair: it is read or refused. Raises DataError, naming *place*, if it is none, is
    cut or too large, or has values of more than 8 bits, and RefusedStart if Pillow is not installed.
    """
    image_module = _pillow(place)
    try:
        jpeg.check(content)
        with warnings.catch_warnings(action="ignore"), image_module.open(io.BytesIO(content), formats=FORMATS) as image:
            _check(image)
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


def _check(image: Any) -> None:
    """Raise ValueError for an opened *image* that would take too much memory or time, or lose values when it becomes 8-bit."""
    tile = [image.tag_v2.get(tag, 1) for tag in TILES] if image.format == "TIFF" else [1, 1]
    _check_pixels(*image.size)
    _check_pixels(*tile)
    _check_pixels(*(-(-size // each) * each for size, each in zip(image.size, tile, strict=True)))
    if _is_deep(image):
        raise ValueError("its values have more than 8 bits, expected 8")


def _check_pixels(width: Any, height: Any) -> None:
    if not (isinstance(width, int) and isinstance(height, int) and min(width, height) > 0 and width * height <= MOST_PIXELS):
        raise ValueError(f"it has {str(width)[:20]} x {str(height)[:20]} pixels, expected at most {MOST_PIXELS:,}")


def _is_deep(image: Any) -> bool:
    """Return whether the values of an opened *image* have more than 8 bits in its file; its mode tells so of grey ones only."""
    decoder = image.tile[0][3] if image.tile else ""
    return bool(
        image.mode.startswith(("I", "F"))
        or (image.format == "PNG" and ";16" in decoder)
        or (image.format == "PPM" and isinstance(decoder, tuple) and decoder[1] > 255)  # the value of white
        or (image.format == "TIFF" and max(image.tag_v2.get(BITS, (1,))) > 8)
    )


def _pillow(place: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise RefusedStart(place, "is a picture, and Pillow is not installed", hint=INSTALL) from error
    return Image
