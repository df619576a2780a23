"""How much work a JPEG is to read, which its size does not tell.

A progressive JPEG brings its picture in scans, each of which goes over all of it: some ten of them in files that people have.
Nothing in the format bounds their number, and a scan that changes nothing takes 16 bytes and, of 4096 x 4096 pixels, a
hundredth of a second: a file of a megabyte keeps a processor busy for a quarter of an hour. Segments of camera data are put
together by copying all that came before, so that millions of small ones take hours.
Source: ITU-T T.81, section B.1. A segment begins with 0xFF and a marker. In the data of a scan 0xFF is followed by 0, or by the
marker of a restart, and anything else ends them.
"""

import re
from collections.abc import Iterator
from itertools import islice

START = b"\xff\xd8"
START_OF_SCAN, END, ALONE = 0xDA, 0xD9, 0x01  # the last one is a marker without a segment
MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])", re.DOTALL)
MOST_SCANS = 100  # chosen: what libtiff allows
MOST_SEGMENTS = 1000  # chosen: some ten are usual, and a profile of colours may have 255


def check(content: bytes) -> None:
    """Raise ValueError if *content* is a JPEG of more scans or segments than anybody writes."""
    markers = list(islice(_markers(content), MOST_SEGMENTS + 1)) if content.startswith(START) else []
    if len(markers) > MOST_SEGMENTS:
        raise ValueError(f"it has more than {MOST_SEGMENTS:,} segments")
    if markers.count(START_OF_SCAN) > MOST_SCANS:
        raise ValueError(f"it has more than {MOST_SCANS} scans")


def _markers(content: bytes) -> Iterator[int]:
    """Yield the markers of the segments of *content* up to its end, passing over what is inside of them."""
    place = len(START)
    while (found := MARKER.search(content, place)) and (marker := found[1][0]) != END:
        yield marker
        length = 0 if marker == ALONE else int.from_bytes(content[found.end() : found.end() + 2])
        place = found.end() + length
