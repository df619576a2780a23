"""Characters that no page, table or figure may hold: what they are of texts of a study is replaced by a mark."""

import re

FOREIGN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # to XML, and half of them to HTML
MARK = "\ufffd"


def printable(text: str) -> str:
    r"""Return *text* with a mark in the place of each character that XML forbids or that controls a terminal.

    >>> ascii(printable("a\x1b[31mb\n\udcff"))
    "'a\\ufffd[31mb\\n\\ufffd'"
    """
    return FOREIGN.sub(MARK, text)
