"""What tells one machine from another for the purpose of speed: processor, its flags, cores allowed, memory, GPUs.

Read from the system without loading torch, so that the parent of several workers can ask. The number of cores and the memory
are those this process may use: a container with another quota is another machine.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from contilab.hardware.capabilities import CPUINFO, cpu_model
from contilab.hardware.limits import memory_bytes
from contilab.hardware.threads import thread_budget
from contilab.hardware.versions import versions
from contilab.spec.canonical import digest

GPUS = Path("/proc/driver/nvidia/gpus")


class Machine(NamedTuple):
    """A machine with a version of torch: what was measured on another one says nothing here."""

    fingerprint: str
    torch: str
    facts: dict[str, Any]


def machine(cpuinfo: Path = CPUINFO, gpus: Path = GPUS) -> Machine:
    """Return this machine, as this process may use it."""
    facts = {
        "cpu": cpu_model(cpuinfo),
        "flags": digest(sorted(_flags(cpuinfo))),
        "cores": thread_budget(environ={}).count,
        "memory_gib": round(memory_bytes() / 2**30),  # the system's own share differs by some MB from start to start
        "devices": list(_gpus(gpus)),
    }
    return Machine(digest(facts), versions()["torch"], facts)


@cache
def this_machine() -> Machine:
    """Return this machine as it was when it was first asked for: it does not change while a process lives."""
    return machine()


def _flags(cpuinfo: Path) -> set[str]:
    """Return the instruction sets of the first processor that names some."""
    for line in _lines(cpuinfo):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _gpus(folder: Path) -> Iterable[str]:
    try:
        cards = sorted(folder.iterdir())
    except OSError:
        return
    for card in cards:
        yield from (line.partition(":")[2].strip() for line in _lines(card / "information") if line.startswith("Model:"))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
