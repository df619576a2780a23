"""Aligned text columns for standard output: the same on a terminal, in a file and without colour."""

import io
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[object]], *, right: Sequence[int] = (), width: int | None = None) -> str:
    """Return *rows* as lines of columns, two spaces apart; the columns numbered in *right* are flush right.

    *width*: of a line, in characters; where the columns are wider together, the widest of them are folded.

    >>> print(columns([["method", "acc"], ["er", 0.9]], right=[1]))
    method  acc
    er      0.9
    """
    texts = [[str(item) for item in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [_line(row, widths, right) for row in texts]
    return "\n".join(lines if width is None or max(map(len, lines)) <= width else _folded(texts, right, width))


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [
        text.rjust(width) if index in right else text.ljust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _folded(texts: Sequence[Sequence[str]], right: Sequence[int], width: int) -> list[str]:
    from rich.console import Console  # loaded only where it is needed: `contilab status` stays fast
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    whole = _whole(texts, width)
    for index in range(len(texts[0])):
        table.add_column(justify="right" if index in right else "left", overflow="fold", no_wrap=index in whole)
    for row in texts:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=width, height=1, color_system=None)  # with no height it takes its own width
    with console.capture() as found:
        console.print(table)
    return [line.rstrip() for line in found.get().splitlines()]


def _whole(texts: Sequence[Sequence[str]], width: int) -> set[int]:
    """Return the columns of single words, such as names, that are not to be folded; none where the words leave no room."""
    columns = list(zip(*texts, strict=True))
    whole = {index for index, column in enumerate(columns) if all(len(text.split()) < 2 for text in column)}
    least = [
        max(len(word) for text in column for word in ([text] if index in whole else text.split() or [""]))
        for index, column in enumerate(columns)
    ]
    return whole if sum(least) + 2 * (len(least) - 1) <= width else set()
