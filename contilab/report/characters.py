"""Characters that no page, table or figure may hold: what they are of texts of a study is replaced by a mark."""

import re

FOREIGN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # to XML, and half of them to HTML
MARK = "\ufffd"
LENGTH = 64  # chosen: what a figure has room for beside its axes


def printable(text: str) -> str:
    r"""Return *text* with a mark in the place of each character that XML forbids or that controls a terminal.

    >>> ascii(printable("a\x1b[31mb\n\udcff"))
    "'a\\ufffd[31mb\\n\\ufffd'"
    """
    return FOREIGN.sub(MARK, text)


def brief(text: str, length: int = LENGTH) -> str:
    """Return *text* in one line of at most *length* letters, for which a figure has room: of a longer one without its middle.

    >>> brief("er note=" + 100 * "a" + " lr=0.1", 27)
    'er note=aaaaaaa … aa lr=0.1'
    """
    line, tail = " ".join(text.split()), length // 3
    return line if len(line) <= length else f"{line[: length - tail - 3]} … {line[-tail:]}"
