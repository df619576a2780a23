"""Memory in large pages: a heap that the system is asked to back by them.

With pages of 4 KiB a step of eight MLPs 2x400 walks through 6,000 of them, more than a processor's table of addresses holds,
and in a virtual machine each miss is dear. Samples per second with large pages over those without, two Xeon cores, batch 32
unless told: eight MLPs batched 1.24, at batch 128 1.11, at batch 10 1.09, thirty-two 1.25; four ResNets member by member 1.21,
in bf16 on one core 1.35.

Systems that give large pages only to who asks for them are the rule (`transparent_hugepage/enabled` is `madvise`). glibc asks
if `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` is set when a process begins, which a process cannot do for itself.
"""

import ctypes
import os
from collections.abc import MutableMapping

HEAP_BYTES = 512 * 2**20  # chosen: room for the tensors of most groups; addresses alone, until something is written there
LARGE_PAGE = 2 * 2**20  # of x86-64, and of arm64 as a rule
TOP_PAD, DEFAULT_PAD = -2, 128 * 2**10  # glibc's mallopt(3): by how much more than it needs the heap grows
ADVICE = 14  # MADV_HUGEPAGE of madvise(2)
MOST_BLOCKS = 256  # of 16 MiB; a system that refuses more addresses must not keep us here
NEEDED = ("gnu_get_libc_version", "mallopt", "sbrk", "madvise")


def use_large_pages(environ: MutableMapping[str, str] = os.environ) -> bool:
    """Let the heap grow by 512 MiB of addresses in large pages; return whether it did, which takes Linux and glibc.

    Has an effect only if the heap may keep so much that is free (`process`). Blocks that are mapped on their own get large
    pages from torch, which reads its variable when it is imported. The user's own variables win.
    """
    environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    library = ctypes.CDLL(None)
    if "MALLOC_TOP_PAD_" in environ or not all(hasattr(library, name) for name in NEEDED):
        return False
    library.sbrk.restype, library.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    begin = library.sbrk(0)
    library.mallopt(TOP_PAD, HEAP_BYTES)
    blocks: list[int | None] = []
    while library.sbrk(0) == begin and len(blocks) < MOST_BLOCKS:  # until what is free within the heap is used up
        blocks.append(library.malloc(8 * LARGE_PAGE))
    for block in blocks:
        library.free(block)
    library.mallopt(TOP_PAD, DEFAULT_PAD)
    begin = -(-begin // LARGE_PAGE) * LARGE_PAGE
    grown = library.sbrk(0) - begin
    return bool(grown > 0 and library.madvise(begin, grown, ADVICE) == 0)
