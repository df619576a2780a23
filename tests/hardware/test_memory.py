"""What a process may still take, and the most that it took."""

import os
import subprocess
import sys

import psutil
import pytest
import torch

from contilab.hardware import peak as peak_module
from contilab.hardware.memory import MIB, free_device_memory, free_memory
from contilab.hardware.peak import PeakMemory, forget_device_peak


@pytest.fixture
def group(tmp_path):
    """A control group that leaves 600 MiB, as the arguments that say so."""
    (tmp_path / "memory.max").write_text(str(1000 * MIB))
    (tmp_path / "memory.current").write_text(str(400 * MIB))
    (tmp_path / "membership").write_text("0::/\n")
    return {"mount": tmp_path, "membership": tmp_path / "membership"}


class TestFree:
    """Bytes that are left."""

    @pytest.mark.parametrize(("machine", "left", "who"), [(2000, 600, "cgroup limit"), (500, 500, "machine")])
    def test_the_tighter_one_binds(self, group, machine, left, who):
        """Machine and control group both bind, and the reason names which."""
        found = free_memory(machine=machine * MIB, **group)

        assert found.bytes == left * MIB
        assert f"{left} MiB left" in found.reason
        assert who in found.reason

    def test_shared(self, group):
        """Workers deal out what they hold and what is left; each is left its share but for what it holds already."""
        own = psutil.Process().memory_info().rss
        found = free_memory(4, None, machine=8000 * MIB, mount=group["mount"], membership=group["mount"] / "none")

        assert found.bytes == pytest.approx((8000 * MIB + own) // 4 - own, abs=16 * MIB)
        assert "shared by 4 workers" in found.reason

    def test_others_that_hold_much(self, group):
        """What a worker of the same run holds already comes out of its own share."""
        program = f"import time\nheld = b'x' * {200 * MIB}\nprint('ready', flush=True)\ntime.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            other.stdout.readline()
            alone = free_memory(2, None, machine=8000 * MIB, mount=group["mount"], membership=group["mount"] / "none")
            beside = free_memory(2, os.getpid(), machine=8000 * MIB, mount=group["mount"], membership=group["mount"] / "none")
            other.kill()

        assert beside.bytes - alone.bytes > 90 * MIB

    def test_never_negative(self, group):
        """A worker that holds more than its share may take nothing."""
        assert free_memory(1000, None, machine=MIB, **group).bytes == 0


class TestDevice:
    """A GPU, as far as a machine without one can tell: what torch would say is put in its place."""

    @pytest.fixture(autouse=True)
    def _torch(self, monkeypatch):
        allocated = iter([200 * MIB] * 2)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (1000 * MIB, 8000 * MIB))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 500 * MIB)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: next(allocated))
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: 700 * MIB)
        self.forgotten = []
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.forgotten.append)

    def test_what_torch_keeps_is_free(self):
        """The driver's free memory and what torch keeps of freed tensors may both be taken."""
        assert free_device_memory("cuda:0").bytes == (1000 + 500 - 200) * MIB

    def test_peak(self):
        """The peak is that of tensors, beyond those that were there before."""
        with PeakMemory("cuda:0") as memory:
            pass

        assert (memory.peak_bytes, memory.is_exact) == (500 * MIB, True)

    def test_peak_of_each_group(self):
        """The peak of a GPU can count from now on; that of a process stays."""
        forget_device_peak("cpu")
        forget_device_peak("cuda:1")

        assert self.forgotten == ["cuda:1"]


class TestPeak:
    """The most memory that was taken meanwhile."""

    def test_what_is_freed_again_counts(self):
        """A tensor that lived for a moment is seen, and no other moment before it."""
        before = torch.ones(120 * MIB // 4)
        del before
        with PeakMemory() as memory:
            torch.ones(64 * MIB // 4)

        assert memory.is_exact
        assert 48 * MIB < memory.peak_bytes < 90 * MIB  # a busy system takes pages of files back meanwhile

    def test_a_system_that_forgets_nothing(self, monkeypatch, tmp_path):
        """Where the peak of the past cannot be forgotten that is said."""
        monkeypatch.setattr(peak_module, "RESET", tmp_path / "none" / "clear_refs")
        with PeakMemory() as memory:
            torch.ones(10)

        assert not memory.is_exact
