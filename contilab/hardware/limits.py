"""What the control group of this process allows: processor time and memory, from cgroup v2 and v1, and what is left of it.

A container's limits stand nowhere but here: `nproc` and `/proc/meminfo` still tell the machine's numbers. A limit of any
parent binds as well, so every level from the own group up to the mount is read and the smallest counts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # it ships no types

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MACHINE = Path("/proc/vmstat")
NO_LIMIT_BYTES = 2**60  # cgroup v1 writes "no limit" as the largest multiple of a page below 2^63


class _Names(NamedTuple):
    """How a version of control groups names what it tells of memory."""

    limit: str
    used: str
    kills: str
    prefix: str  # of lines of memory.stat that count child groups too
    mapped: str  # the line of page cache that is mapped, as code of libraries is


_MEMORY = {
    1: _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control", "total_", "mapped_file"),
    2: _Names("memory.max", "memory.current", "memory.events", "", "file_mapped"),
}


class Limits(NamedTuple):
    """The limits of the control group; None where there is none. *cpus* is processor seconds per second, often a fraction."""

    cpus: float | None
    memory_bytes: int | None


def limits(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Limits:
    """Return the limits that bind this process. A file that is missing or unreadable is no limit."""
    cpus: list[float] = []
    memory: list[int] = []
    for controllers, path in _groups(membership):
        if not controllers:
            for level in _levels((mount, mount / "unified"), path):
                cpus += _cpu_max(level)
        if "cpu" in controllers:
            for level in _levels(_v1_mounts(mount, "cpu", controllers), path):
                cpus += _cfs_quota(level)
    for names, level in _memory_levels(mount, membership):
        memory += _bytes(level / names.limit)
    return Limits(min(cpus, default=None), min(memory, default=None))


def memory_bytes(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Return the memory this process may use at most: that of the machine or of its control group."""
    total = int(psutil.virtual_memory().total)
    return min(total, limits(mount, membership).memory_bytes or total)


def memory_left(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int | None:
    """Return the bytes that control groups leave this process; None without a limit.

    Page cache that nobody maps counts as left: the kernel gives it up before it kills.
    """
    left = []
    for names, level in _memory_levels(mount, membership):
        for limit, used in zip(_bytes(level / names.limit), _bytes(level / names.used), strict=False):
            left.append(max(0, limit - max(0, used - _reclaimable(level, names))))
    return min(left, default=None)


def oom_kills(mount: Path = MOUNT, membership: Path = MEMBERSHIP, machine: Path = MACHINE) -> int:
    """Return how many processes the kernel has killed for lack of memory: of the own group, or of the machine."""
    for names, level in _memory_levels(mount, membership):
        if "oom_kill" in (found := _table(level / names.kills)):
            return found["oom_kill"]
    return _table(machine).get("oom_kill", 0)


def _memory_levels(mount: Path, membership: Path) -> Iterator[tuple[_Names, Path]]:
    """Yield the groups whose memory this process takes, the own ones first, each with how its files are named."""
    for controllers, path in _groups(membership):
        if not controllers:
            yield from ((_MEMORY[2], level) for level in _levels((mount, mount / "unified"), path))
        elif "memory" in controllers:
            yield from ((_MEMORY[1], level) for level in _levels(_v1_mounts(mount, "memory", controllers), path))


def _reclaimable(level: Path, names: _Names) -> int:
    stat = _table(level / "memory.stat")
    cached = sum(stat.get(f"{names.prefix}{kind}", 0) for kind in ("inactive_file", "active_file"))
    return max(0, cached - stat.get(f"{names.prefix}{names.mapped}", 0))


def _groups(membership: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield controllers and path of each hierarchy; no controllers means version 2."""
    for line in _text(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield tuple(name for name in parts[1].split(",") if name), parts[2]


def _v1_mounts(mount: Path, controller: str, controllers: tuple[str, ...]) -> tuple[Path, ...]:
    return (mount / controller, mount / ",".join(controllers))


def _levels(mounts: tuple[Path, ...], path: str) -> Iterator[Path]:
    # Inside a container without a cgroup namespace the path is the host's and does not exist below the mount, which then
    # is the own group already: hence the mount itself is always among the levels.
    parts = [part for part in path.split("/") if part and part != ".."]
    for mount in mounts:
        for depth in range(len(parts), -1, -1):
            yield mount.joinpath(*parts[:depth])


def _cpu_max(level: Path) -> list[float]:
    words = _text(level / "cpu.max").split()
    return _share(words[0], words[1]) if len(words) == 2 else []


def _cfs_quota(level: Path) -> list[float]:
    return _share(_text(level / "cpu.cfs_quota_us").strip(), _text(level / "cpu.cfs_period_us").strip())


def _share(quota: str, period: str) -> list[float]:
    if not (quota.isdigit() and period.isdigit()) or int(period) == 0 or int(quota) == 0:
        return []  # "max" in version 2, -1 in version 1
    return [int(quota) / int(period)]


def _bytes(file: Path) -> list[int]:
    text = _text(file).strip()
    return [int(text)] if text.isdigit() and int(text) < NO_LIMIT_BYTES else []


def _table(file: Path) -> dict[str, int]:
    """Return the lines `name number` of *file*."""
    pairs = (line.split() for line in _text(file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
