"""How many threads this process should use.

torch asks the machine and ignores the container's quota; with too many threads the quota is spent on waiting. So:
min(affinity, quota rounded up) / workers, at least 1. OMP_NUM_THREADS is the user's word and wins.
"""

import math
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from contilab.hardware.limits import MEMBERSHIP, MOUNT, limits


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
    if asked.isdigit() and int(asked) > 0:
        return Threads(int(asked), f"OMP_NUM_THREADS is {asked}")
    cpus = affinity if affinity is not None else len(os.sched_getaffinity(0))
    quota = limits(mount, membership).cpus
    allowed = cpus if quota is None else min(cpus, math.ceil(quota))
    source = f"affinity {cpus}, " + ("no cgroup quota" if quota is None else f"cgroup quota {quota:g}")
    shared = f", shared by {workers} workers" if workers > 1 else ""
    return Threads(max(1, allowed // max(1, workers)), source + shared)


def wait_passively(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's idle threads sleep, unless the user says otherwise. Has an effect only before torch is imported.

    By default they spin, which starves every other process that shares the processors. Measured with two threads on two
    busy cores (load 7), a small perceptron: 405 steps took 22.8 s spinning and 2.1 s sleeping; one thread took 2.5 s.
    """
    environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
