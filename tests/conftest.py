"""What holds for all tests."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("contilab", deadline=None)  # a busy machine makes no property false
settings.load_profile("contilab")
os.environ.pop("COLUMNS", None)  # texts are whole lines, also where tests run side by side, whose processes are told a width

MEMORY = Path("/dev/shm")  # noqa: S108  a tmpfs on every Linux
ROOM = 8 * 2**30  # chosen: the slow tests leave half of it until they are done, the fast ones a thirtieth
TEMPORARY = "PYTEST_DEBUG_TEMPROOT"  # names where pytest makes the directories of tests


def pytest_configure(config: pytest.Config) -> None:
    """Where tests run side by side, put their directories into memory: stores flush every file, and disks take a while for it.

    They are gone with the last test; a test that runs alone leaves its own on the disk. What is claimed of a disk is tested on
    one: tests/store/conftest.py.
    """
    if config.getoption("tx", None) and TEMPORARY not in os.environ and _suits(MEMORY):
        os.environ[TEMPORARY] = tempfile.mkdtemp(prefix="contilab-tests-", dir=MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(TEMPORARY), ignore_errors=True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process one half of the tests, and to who is done first a part of what is left, so that they share fixtures."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def _suits(place: Path) -> bool:
    if not os.access(place, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC  # tests start programs that they wrote


@pytest.fixture(autouse=True)
def full_arithmetic() -> Iterator[None]:
    """Leave no test with the zeros in place of small numbers that a runner before it, in this process, asked for."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def program() -> list[str]:
    """The words that start contilab in a process of its own, from wherever it is imported here."""
    return [sys.executable, "-c", "from contilab.cli.main import main; main()"]


@pytest.fixture
def drawn_samples(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the indices of all samples that training draws from now on, and that memory holds meanwhile."""
    from contilab.engine.draws import Draws

    seen: set[int] = set()
    chunk = Draws.chunk

    def noting(self: Draws, stage: Any, piece: Any, memory: Any) -> Any:
        draws = chunk(self, stage, piece, memory)
        for own in (*draws.replay.values(), *draws.references):
            seen.update(own.samples[own.weight > 0].tolist())
        seen.update(draws.current.flatten().tolist(), *(entries.held.tolist() for entries in memory.entries()))
        return draws

    monkeypatch.setattr(Draws, "chunk", noting)
    return seen
