"""What a training process sets up."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os
from contilab.hardware.process import keep_freed_memory

class Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

lib = ctypes.CDLL(None)
lib.mallinfo2.restype = Statistics
lib.malloc.restype, lib.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
keep_freed_memory()
before = lib.mallinfo2().hblks
block = lib.malloc(1_000_000)
print(lib.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
class TestKeepFreedMemory:
    """Blocks of the size of tensors."""

    @pytest.mark.parametrize(("variables", "mapped"), [({}, 0), ({"MALLOC_MMAP_THRESHOLD_": "131072"}, 1)])
    def test_blocks_come_from_kept_memory_unless_the_user_says_otherwise(self, variables: dict[str, str], mapped: int) -> None:
        """A block of 1 MB is not mapped anew; with the user's own threshold it is."""
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=True)

        assert int(done.stdout) == mapped
