"""Cores that other processes use, told from those of the own tree."""

import os
import subprocess
import sys
import time

import pytest

from contilab.hardware import neighbours as neighbours_module
from contilab.hardware.neighbours import Neighbours, tree_seconds

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
BUSY = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


@pytest.fixture
def clocks(monkeypatch):
    """Let the clocks of wall, machine and own tree show what a list says, one triple per look."""

    def show(*looks):
        for name, values in zip(("perf_counter", "machine_seconds", "tree_seconds"), zip(*looks, strict=True), strict=True):
            left = iter(values)
            target = neighbours_module.time if name == "perf_counter" else neighbours_module
            monkeypatch.setattr(target, name, lambda *_, left=left: next(left))

    return show


class TestNeighbours:
    """Others."""

    @pytest.mark.parametrize(
        ("busy", "own", "cores", "are_busy"), [(4.0, 1.0, 1.5, True), (4.0, 3.7, 0.15, False), (1.0, 1.5, 0.0, False)]
    )
    def test_difference(self, clocks, busy, own, cores, are_busy):
        """What the machine was busy beyond the own tree, per second; never negative; above 0.2 of a core they are busy."""
        clocks((10.0, 100.0, 50.0), (12.0, 100.0 + busy, 50.0 + own))
        with Neighbours() as others:
            pass

        assert others.cores == pytest.approx(cores)
        assert others.are_busy is are_busy

    def test_children_are_own(self):
        """The time of a child counts as own, while it lives and once it has ended."""
        before = tree_seconds(os.getpid())
        with subprocess.Popen([sys.executable, "-c", BUSY.format(0.2) + "print(1, flush=True)\ninput()"], **PIPES) as child:
            child.stdout.readline()
            living = tree_seconds(os.getpid()) - before
            child.communicate(b"\n")
        ended = tree_seconds(os.getpid()) - before

        assert living >= 0.15
        assert ended >= 0.15

    def test_a_root_that_is_gone(self):
        """A tree that has ended uses nothing."""
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()

        assert tree_seconds(child.pid) == 0

    def test_machine(self):
        """The machine was busy at least as long as this process works."""
        before = neighbours_module.machine_seconds()
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass

        assert neighbours_module.machine_seconds() - before >= 0.05
