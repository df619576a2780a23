"""What the operating system says is wrong, in words."""

import errno


def symbol(error: OSError) -> str:
    """Return the name of the number of *error*, such as "EROFS"; the number itself where it has none."""
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def reason(error: OSError) -> str:
    """Return what *error* says without its file: words, and the name of its number if it has one.

    >>> reason(OSError(errno.EROFS, "Read-only file system", "a.json"))
    'Read-only file system (EROFS)'
    """
    return f"{error.strerror} ({symbol(error)})" if error.errno else str(error)
