"""Training of a group that may not fit into memory: in parts then, down to one run after the other.

What is known before training (`Crowded`) makes as few equal parts as fit; what is found out by running out of memory makes two.
The second try fails too where it begins inside the `except` block: the exception keeps every tensor of the first one alive.
So the question whether memory was the cause is answered there, and all else happens after it.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from contilab.engine.executions.blocks import evenly
from contilab.engine.room import Crowded
from contilab.hardware.process import give_back_freed_memory
from contilab.spec.run import Run
from contilab.store.ending import tells_of_full_memory

T = TypeVar("T")


class Split(NamedTuple):
    """Why runs are trained in *parts*. *event*: its name in the log. *facts*: the reason, and numbers where there are some."""

    parts: int
    event: str
    facts: dict[str, Any]


Parts = Iterator[tuple[Sequence[Run], Split | None, T]]


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether *error* says that memory of the device or of the machine did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and tells_of_full_memory(error)


def in_parts(
    runs: Sequence[Run],
    train: Callable[[Sequence[Run], bool], T],
    tell: Callable[[Sequence[Run], Split], None],
    *,
    most: int | None = None,
) -> Parts[T]:
    """Yield the parts of *runs* that fit into memory, why each is one (None: it is all), and what *train* returns for it.

    *train* is also told whether its part is all that is left. *tell* is called with each part that does not fit. *most*: runs
    at once, since more were killed. A run that does not fit alone raises what training raised.
    """
    waiting: list[tuple[Sequence[Run], Split | None]] = [(runs, None)]
    if most is not None and len(runs) > most:
        split = Split(-(-len(runs) // most), "memory_split", {"reason": "a worker that trained more was killed for its memory"})
        tell(runs, split)
        waiting = [(part, split) for part in evenly(list(runs), split.parts)]
    while waiting:
        part, cause = waiting.pop(0)
        found = _tried(part, train, is_last=not waiting)
        if isinstance(found, Split):
            tell(part, found)
            _free()
            waiting[:0] = [(smaller, found) for smaller in evenly(list(part), found.parts)]
        else:
            yield part, cause, found[0]


def _tried(part: Sequence[Run], train: Callable[[Sequence[Run], bool], T], *, is_last: bool) -> tuple[T] | Split:
    try:
        return (train(part, is_last),)
    except Crowded as crowded:
        return Split(crowded.parts, "memory_split", crowded.facts)
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if len(part) == 1 or not is_out_of_memory(error):
            raise
    return Split(2, "out_of_memory", {"reason": f"memory did not suffice for {len(part)} runs together"})


def _free() -> None:
    gc.collect()  # the frames of the failed try hold cycles
    give_back_freed_memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
