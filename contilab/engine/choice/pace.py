"""A form in motion: how long it takes for some more steps of a group, draws and gathering included."""

import time
from typing import NamedTuple

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState
from contilab.engine.executions.contract import MakeExecution, Report
from contilab.engine.schedule import BLOCK, Chunk
from contilab.engine.setup import Setup, draws_of, initial_members, initial_memory


class Lap(NamedTuple):
    """Some steps of all members: *samples* summed over members, replayed ones left out.

    *busy_seconds*: processor time of the thread that called, which other processes do not lengthen by taking turns with it.
    *chunks*: how often draws were made, and what else is done for several steps at once.
    """

    steps: int
    samples: int
    seconds: float
    busy_seconds: float
    chunks: int = 1

    @property
    def speed(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    def __add__(self, other: object) -> "Lap":
        assert isinstance(other, Lap)  # noqa: S101 - laps are added to laps
        return Lap(
            self.steps + other.steps,
            self.samples + other.samples,
            self.seconds + other.seconds,
            self.busy_seconds + other.busy_seconds,
            self.chunks + other.chunks,
        )


class Pace:
    """One execution of *setup*, from its first step on; after the last step of the first stage it begins there again.

    Errors of training come out of it unchanged. *members*: how they begin, if that is known. *draws_once*: the first draws of a
    chunk are used again and again. *most*: that many steps and no more are trained at a time; whoever measures may set it.
    """

    def __init__(
        self, setup: Setup, make: MakeExecution, members: list[MemberState] | None = None, *, draws_once: bool = False
    ) -> None:
        self._setup = setup
        self._execution = make(setup.learner)
        self._draws = draws_of(setup)
        self._stage = setup.stages[0]
        self._lesson = setup.lesson(self._stage)
        self._ensemble = self._execution.gather(members or initial_members(setup))
        self._memory = initial_memory(setup)
        self._step = 0
        self._step_seconds = 0.0
        self._kept: dict[tuple[int, int], Draw] | None = {} if draws_once else None
        self.most = BLOCK

    def lap(self, limit: int) -> Lap:
        """Train by one chunk of at most *limit* steps."""
        begin, busy = time.perf_counter(), time.thread_time()
        chunk = self._stage.schedule.chunk(self._step, max(1, min(self.most, limit)))
        draws = self._drawn(chunk)
        self._ensemble, losses = self._execution.train(self._ensemble, self._lesson, draws)
        losses.sum().item()  # waits for the device
        self._step = (self._step + chunk.count) % self._stage.schedule.steps
        seconds = time.perf_counter() - begin
        self._step_seconds = seconds / chunk.count
        samples = len(self._setup.runs) * chunk.count * chunk.batch
        return Lap(chunk.count, samples, seconds, time.thread_time() - busy)

    def report(self) -> Report:
        """Return what there is to say of the steps since the last report."""
        return self._execution.report()

    def _drawn(self, chunk: Chunk) -> Draw:
        if self._kept is None:
            return self._draws.chunk(self._stage, chunk, self._memory)
        key = (chunk.count, chunk.batch)
        if key not in self._kept:
            self._kept[key] = self._draws.chunk(self._stage, chunk, self._memory)
        return self._kept[key]

    def during(self, seconds: float) -> Lap:
        """Train for about *seconds*, by one step at least."""
        total = self.lap(self._fitting(seconds))
        while total.seconds < seconds:
            total = total + self.lap(self._fitting(seconds - total.seconds))
        return total

    def _fitting(self, seconds: float) -> int:
        return int(seconds / self._step_seconds) if self._step_seconds else 1
