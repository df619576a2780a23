"""Training of a group that may not fit into memory: in halves then, down to one run after the other.

The second try fails too where it begins inside the `except` block: the exception keeps every tensor of the first one alive.
So the question whether memory was the cause is answered there, and all else happens after it.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from contilab.spec.run import Run

T = TypeVar("T")

_SIGNS = ("not enough memory", "out of memory", "can't allocate memory")  # torch's allocators on processors raise plain errors


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether *error* says that memory of the device or of the machine did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


def in_parts(
    runs: Sequence[Run], train: Callable[[Sequence[Run], bool], T], tell: Callable[[Sequence[Run]], None]
) -> Iterator[tuple[Sequence[Run], T]]:
    """Yield the parts of *runs* that fit into memory with what *train* returns for each, in order.

    *train* is also told whether its part is all that is left. *tell* is called with each part that does not fit. A run that
    does not fit alone raises what training raised.
    """
    waiting = [runs]
    while waiting:
        part = waiting.pop(0)
        found = _tried(part, train, is_last=not waiting)
        if found is None:
            tell(part)
            _free()
            middle = (len(part) + 1) // 2
            waiting[:0] = [part[:middle], part[middle:]]
        else:
            yield part, found[0]


def _tried(part: Sequence[Run], train: Callable[[Sequence[Run], bool], T], *, is_last: bool) -> tuple[T] | None:
    try:
        return (train(part, is_last),)
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if len(part) == 1 or not is_out_of_memory(error):
            raise
    return None


def _free() -> None:
    gc.collect()  # the frames of the failed try hold cycles
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
