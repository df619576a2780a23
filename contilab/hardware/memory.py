"""How much memory a process may still take: what the machine and its control groups leave, shared with workers beside it.

The memory of a GPU is not shared out: workers on one GPU find out by running out of it. Of the host, workers of one run are
counted whole: what they hold and what is left is dealt out evenly, so that those which begin at once do not all plan with the
same bytes, and one that begins late gets what the others did not need.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # it ships no types

from contilab.hardware.limits import MEMBERSHIP, MOUNT, memory_left

MIB = 2**20


class Free(NamedTuple):
    """Bytes that may still be taken, and who says so."""

    bytes: int
    reason: str


def free_memory(
    workers: int = 1, top: int | None = None, *, mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: int | None = None
) -> Free:
    """Return what this process, one of *workers*, may still take of the memory of the host.

    *top*: the process above all workers. *machine*: bytes available there, for tests.
    """
    available = int(psutil.virtual_memory().available) if machine is None else machine
    left = memory_left(mount, membership)
    most = available if left is None else min(available, left)
    told = f"{most // MIB:,} MiB left " + ("on the machine" if most == available else "by the cgroup limit")
    if workers < 2:
        return Free(most, told)
    family = sum(_resident(process) for process in _family(top)) if top else 0
    own = _resident(psutil.Process())
    share = (most + max(family, own)) // workers - own
    return Free(max(0, min(most, share)), f"{told}, shared by {workers} workers")


def free_device_memory(device: str) -> Free:
    """Return what this process may still take of the memory of the GPU *device*; what torch keeps of freed memory counts."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return Free(free + kept, f"{(free + kept) // MIB:,} MiB left on {device}")


def _family(top: int) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        yield (parent := psutil.Process(top))
        yield from parent.children(recursive=True)


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):  # it has ended
        return int(process.memory_info().rss)
    return 0
