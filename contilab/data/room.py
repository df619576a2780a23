"""How much memory reading data may take: what does not fit is refused before the system kills the process without a word."""

from collections.abc import Callable

from contilab.errors import DataError

Left = Callable[[], int]  # the bytes of memory that may still be taken


def without_limit() -> int:
    """Return more bytes than there are."""
    return 2**63


def check_room(place: str, what: str, needed: int, left: Left, *, hint: str) -> None:
    """Raise DataError, which says that it is the machine that lacks something, unless *needed* bytes are left for *what*."""
    if needed > (free := left()):
        problem = f"{what} take {needed:,} bytes of memory, and {free:,} are left"
        raise DataError(place, problem, hint=hint) from MemoryError()
