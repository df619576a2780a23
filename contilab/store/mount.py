"""Which file system a path lies on, from the kernel's own table."""

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
LOCAL = frozenset({"ext4", "xfs", "btrfs", "tmpfs", "overlay"})  # where flock is known to be freed by a kill


def file_system(path: Path) -> str:
    """Return the type of the file system under *path* ("ext4", "nfs4"); empty if the system does not tell."""
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    place, found, depth = path.resolve(), "", -1
    for line in table.splitlines():
        mount, kind = _mount(line)
        if place.is_relative_to(mount) and len(mount.parts) >= depth:  # of equal mount points the last covers the others
            found, depth = kind, len(mount.parts)
    return found


def is_local(path: Path) -> bool:
    """Whether a lock under *path* that can be taken proves that its holder on this machine is gone."""
    return file_system(path) in LOCAL


def _mount(line: str) -> tuple[Path, str]:
    """Split a line of mountinfo (proc_pid_mountinfo(5)) into mount point and type."""
    front, _, back = line.partition(" - ")
    point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), front.split(" ")[4])
    return Path(point), back.split(" ")[0]
