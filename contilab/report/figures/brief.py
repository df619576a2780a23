"""The brief form of a text of a study, for which a figure has room."""

LENGTH = 64  # chosen: what a figure has room for beside its axes


def brief(text: str, length: int = LENGTH) -> str:
    """Return *text* in one line of at most *length* letters: of a longer one without its middle.

    >>> brief("er note=" + 100 * "a" + " lr=0.1", 27)
    'er note=aaaaaaa … aa lr=0.1'
    """
    line, tail = " ".join(text.split()), length // 3
    return line if len(line) <= length else f"{line[: length - tail - 3]} … {line[-tail:]}"
