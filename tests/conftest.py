"""What holds for all tests."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("contilab", deadline=None)  # a busy machine makes no property false
settings.load_profile("contilab")
os.environ.pop("COLUMNS", None)  # texts are whole lines, also where tests run side by side, whose processes are told a width


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
