"""What a process that trains sets up before it imports torch: how its idle threads wait, and what it does with freed memory."""

import ctypes
import os
from collections.abc import Mapping

from contilab.hardware.pages import HEAP_BYTES, SWITCH, use_large_pages
from contilab.hardware.threads import wait_briefly

# Parameters of glibc's mallopt(3), by the variables with which a user sets them.
MMAP_THRESHOLD, TRIM_THRESHOLD, ARENAS = -3, -1, -8
KEPT = {
    "MALLOC_ARENA_MAX": (ARENAS, 1),  # threads take from the one heap, in large pages too: as fast in two of them as with two
    "MALLOC_MMAP_THRESHOLD_": (MMAP_THRESHOLD, 32 * 2**20),  # the most that it takes
    "MALLOC_TRIM_THRESHOLD_": (TRIM_THRESHOLD, HEAP_BYTES + 256 * 2**20),  # what it grew by, and the tensors of a few steps
}


def prepare() -> None:
    """Set this process up for training; the user's own variables win."""
    wait_briefly()
    if keep_freed_memory():
        use_large_pages()


def keep_freed_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Let the C library keep up to 768 MiB of free memory for what is asked for next; return whether it does.

    By default it gives blocks above 128 KiB back to the system at once, and each step asks for its tensors anew, page by page.
    Measured on two Xeon cores, fp32, batch 32: eight MLPs 2x400 batched 95,100 and 98,500 samples/s, vmapped ResNets 262 and
    283, their loop 516 and 536. Of C libraries only glibc has this.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    taken = [mallopt(*setting) for name, setting in KEPT.items() if name not in environ]
    return all(one == 1 for one in taken)


def give_back_freed_memory() -> None:
    """Let the C library give the system what it keeps of freed memory, where it can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
        if SWITCH in os.environ:  # the heap had grown for them, and lost that now
            use_large_pages()
