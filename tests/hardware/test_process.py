"""What a training process sets up."""

import subprocess
import sys
from pathlib import Path

import pytest

from contilab.hardware.pages import SWITCH, use_large_pages

PROGRAM = """
import ctypes
from concurrent.futures import ThreadPoolExecutor
from contilab.hardware.process import give_back_freed_memory, prepare

class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

lib = ctypes.CDLL(None)
lib.mallinfo2.restype = Statistics
lib.malloc.restype, lib.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

def is_advised(address):
    inside = False
    for line in open("/proc/self/smaps"):
        key, *values = line.split()
        if "-" in key:
            begin, end = (int(part, 16) for part in key.split("-"))
            inside = begin <= address < end
        elif inside and key == "VmFlags:":
            return "hg" in values

prepare()
before = lib.mallinfo2().hblks
first = lib.malloc(1_000_000)
mapped = lib.mallinfo2().hblks - before
blocks = [lib.malloc(1_000_000) for _ in range(100)]
first_later = blocks[50]
with ThreadPoolExecutor(1) as thread:
    of_a_thread = thread.submit(lib.malloc, 1_000_000).result()
    in_a_thread = is_advised(of_a_thread)
give_back_freed_memory()
blocks = [lib.malloc(1_000_000) for _ in range(500)]
print(mapped, is_advised(first_later), in_a_thread, is_advised(blocks[-1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
class TestMemory:
    """Blocks of the size of tensors."""

    @pytest.mark.parametrize(
        ("variables", "mapped", "is_large"),
        [
            ({}, 0, True),
            ({"MALLOC_MMAP_THRESHOLD_": "131072"}, 1, False),
            ({"MALLOC_TOP_PAD_": "131072"}, 0, False),
            ({SWITCH: "0"}, 0, False),
        ],
    )
    def test_blocks_come_from_kept_memory_in_large_pages_unless_the_user_says_otherwise(
        self, variables: dict[str, str], mapped: int, is_large: bool
    ) -> None:
        """Blocks of 1 MB are not mapped anew and lie in large pages, of any thread, also once freed memory was given back."""
        is_large &= Path("/sys/kernel/mm/transparent_hugepage").is_dir()

        done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=True)

        assert done.stdout.split() == [str(mapped), *[str(is_large)] * 3]

    def test_torch_is_told_to_ask_for_large_pages_unless_the_user_says_otherwise(self) -> None:
        """The variable that torch reads is set, and kept where it is set already."""
        told, own = {"MALLOC_TOP_PAD_": "1"}, {SWITCH: "0"}

        is_used = [use_large_pages(variables) for variables in (told, own)]

        assert is_used == [False, False]
        assert (told[SWITCH], own[SWITCH]) == ("1", "0")
