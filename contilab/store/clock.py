"""The one clock of the protocol: seconds since boot, suspend included. Two machines never compare theirs."""

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # equal in all containers of one host


def boottime() -> float:
    """Return seconds since boot. CLOCK_MONOTONIC would stop in suspend and keep a dead attempt alive."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the identity of this boot of this machine; empty if the system does not tell."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
