"""Aligned text columns for standard output: the same on a terminal, in a file and without colour."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """Return *rows* as lines of columns, two spaces apart; the columns numbered in *right* are flush right.

    >>> print(columns([["method", "acc"], ["er", 0.9]], right=[1]))
    method  acc
    er      0.9
    """
    texts = [[str(item) for item in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(_line(row, widths, right) for row in texts)


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [
        text.rjust(width) if index in right else text.ljust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
