"""How wide a line of text is: as COLUMNS says, or the terminal. A file or pipe gets whole lines, for programs that read."""

import shutil
import textwrap
from collections.abc import Iterator

PARAGRAPH = 100  # characters; longer lines are hard to read; chosen
UNBOUNDED = 10**6
LEAST = 40  # a narrower terminal breaks lines itself; chosen


def line_width(most: int = UNBOUNDED) -> int:
    """Return how many characters a line may have, *most* at most."""
    return min(most, max(LEAST, shutil.get_terminal_size((UNBOUNDED, 0)).columns))


def paragraph(text: str) -> str:
    """Return *text*, whatever its line ends, as lines that are easy to read."""
    return textwrap.fill(" ".join(text.split()), line_width(PARAGRAPH))


def folded(text: str, most: int = UNBOUNDED) -> str:
    """Return *text* with each line that is longer than the terminal, or *most*, broken at a blank, and the rest indented."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line, line_width(most)))


def _parts(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    yield from textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
