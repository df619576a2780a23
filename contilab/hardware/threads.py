"""How many threads this process should use.

torch asks the machine and ignores the container's quota; with too many threads the quota is spent on waiting. So:
min(affinity, quota rounded up) / workers, at least 1. OMP_NUM_THREADS is the user's word and wins.
"""

import math
import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from contilab.hardware.limits import MEMBERSHIP, MOUNT, limits

MOST = 1024  # threads of one process; more is a slip of the keyboard, and torch may fail on it


@dataclass(frozen=True)
class Threads:
    """A number of threads and why it is this one."""

    count: int
    reason: str


def thread_budget(
    workers: int = 1,
    *,
    environ: Mapping[str, str] = os.environ,
    affinity: int | None = None,
    mount: Path = MOUNT,
    membership: Path = MEMBERSHIP,
) -> Threads:
    """Return the threads for one of *workers* processes that share this machine's allowance."""
    asked = environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # OpenMP allows a list, one value per nesting level
    if re.fullmatch("[0-9]{1,9}", asked) and 0 < int(asked) <= MOST:
        return Threads(int(asked), f"OMP_NUM_THREADS is {asked}")
    cpus = affinity if affinity is not None else len(os.sched_getaffinity(0))
    quota = limits(mount, membership).cpus
    allowed = cpus if quota is None else min(cpus, math.ceil(quota))
    source = f"affinity {cpus}, " + ("no cgroup quota" if quota is None else f"cgroup quota {quota:g}")
    shared = f", shared by {workers} workers" if workers > 1 else ""
    return Threads(max(1, allowed // max(1, workers)), source + shared)


def wait_briefly(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's idle threads sleep soon, unless the user says otherwise. Has an effect only before torch is imported.

    And let numpy have one thread: it brings a BLAS with a pool of its own, as large as the machine; here torch multiplies
    matrices, but for the few hundred that are measured of features.

    By default GNU OpenMP lets them spin for milliseconds, which starves every other process that shares the processors;
    asleep at once they wake too late for steps as short as ours. Measured with eight MLPs 2x400 under vmap, batch 32, two
    threads on two Xeon cores, samples per second alone / of two such processes together / beside three busy ones:
    asleep at once 23,400 / 40,900 / 6,000 to 11,400; 3,000 turns 32,500 / 31,800 / 10,000; 10,000 turns 38,100 / 20,300 /
    2,900.
    """
    if "OMP_WAIT_POLICY" not in environ:
        environ.setdefault("GOMP_SPINCOUNT", "3000")
    environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def use_threads(count: int) -> None:
    """Let torch compute with *count* threads, and with zeros in place of numbers too small for their type's full precision.

    Once a task is learned, gradients and Adam's moments become that small, and a processor takes a hundred times as long for
    them: five MLPs 2x400 with Adam at batch 128, 640 samples a step, took 21 ms at first, 32 ms after a thousand steps, and 21
    again without them. Threads that exist already go on as before, so this comes before the first parallel operation.
    """
    import torch

    torch.set_flush_denormal(True)
    torch.set_num_threads(count)
