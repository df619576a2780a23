"""Memory in large pages: a heap that the system is asked to back by them.

With pages of 4 KiB a step of eight MLPs 2x400 walks through 6,000 of them, more than a processor's table of addresses holds,
and in a virtual machine each miss is dear. Samples per second with large pages over those without, on 2026-11-30 on two Xeon
cores, batch 32 unless told: eight MLPs batched 1.24, at batch 128 1.11, at batch 10 1.09, thirty-two 1.25; four ResNets member
by member 1.21, in bf16 on one core 1.35.

Systems that give large pages only to who asks for them are the rule (`transparent_hugepage/enabled` is `madvise`). glibc asks
if `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` is set when a process begins, which a process cannot do for itself.
"""

import ctypes
import os
from collections.abc import MutableMapping

HEAP_BYTES = 512 * 2**20  # chosen: room for the tensors of most groups; addresses alone, until something is written there
LARGE_PAGE = 2 * 2**20  # of x86-64, and of arm64 as a rule
BLOCK, MOST_BLOCKS = 8 * LARGE_PAGE, 256  # 4 GiB in all; a system that refuses more addresses must not keep us here
TOP_PAD, DEFAULT_PAD = -2, 128 * 2**10  # glibc's mallopt(3): by how much more than it needs the heap grows
ADVICE = 14  # MADV_HUGEPAGE of madvise(2)
SWITCH = "THP_MEM_ALLOC_ENABLE"  # torch's own, for blocks that are mapped on their own; read when it is imported
NEEDED = ("gnu_get_libc_version", "mallopt", "sbrk", "madvise")


def use_large_pages(environ: MutableMapping[str, str] = os.environ) -> bool:
    """Let the heap grow by 512 MiB of addresses in large pages; return whether it did, which takes Linux and glibc.

    Has an effect only if the heap may keep so much that is free (`process`). The user's own variables win: the switch of torch,
    which is set here, and glibc's for the growth of the heap.
    """
    library = ctypes.CDLL(None)
    if environ.setdefault(SWITCH, "1") != "1" or "MALLOC_TOP_PAD_" in environ:
        return False
    if not all(hasattr(library, name) for name in NEEDED):
        return False
    library.sbrk.restype, library.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    end = library.sbrk(0)
    _grow(library)
    first_page = -(-end // LARGE_PAGE) * LARGE_PAGE
    grown = library.sbrk(0) - first_page
    return bool(grown > 0 and library.madvise(first_page, grown, ADVICE) == 0)


def _grow(library: ctypes.CDLL) -> None:
    """Let the heap grow at its end: by a block for which there is no room within it."""
    end, blocks = library.sbrk(0), list[int | None]()
    library.mallopt(TOP_PAD, HEAP_BYTES)
    while library.sbrk(0) == end and len(blocks) < MOST_BLOCKS:
        blocks.append(library.malloc(BLOCK))
    for block in blocks:
        library.free(block)
    library.mallopt(TOP_PAD, DEFAULT_PAD)
