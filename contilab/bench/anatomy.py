"""What each part of a step costs, by leaving it out: the same group is trained whole and without the part, in turns.

A profiler tells how long each operation runs, not what would be gained without it: operations overlap, share caches, and the
Python between them belongs to none.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from contilab import catalog
from contilab.engine.choice.pace import Pace
from contilab.engine.executions.contract import MakeExecution
from contilab.engine.setup import Setup, prepare
from contilab.engine.step import Learner
from contilab.optim.contract import Params, State
from contilab.spec.sections import Plugin

TURNS = 5
NAIVE = "naive"


class Part(NamedTuple):
    """One part of a step: *seconds* that a step takes less without it, and the share of the whole; negative means noise."""

    name: str
    seconds: float
    share: float


class Anatomy(NamedTuple):
    """Seconds of a whole step, and what its parts cost."""

    step_seconds: float
    parts: tuple[Part, ...]


def anatomy(setup: Setup, make: MakeExecution, steps: int = 20, turns: int = TURNS) -> Anatomy:
    """Return the anatomy of a step of *setup* under *make*; *turns* of *steps* steps of each variant."""
    paces = {"": Pace(setup, make), "draws from random numbers": Pace(setup, make, draws_once=True)}
    for name, other in _variants(setup).items():
        with suppress(Exception):  # an execution may refuse a learner that lacks a part
            paces[name] = Pace(other, make)
    clocks = {name: _timed(pace, steps) for name, pace in paces.items()}
    for clock in clocks.values():
        clock()  # the first steps load libraries and fill caches
    times: dict[str, list[float]] = {name: [] for name in clocks}
    for _ in range(turns):
        for name, clock in clocks.items():
            times[name].append(clock())
    step = median(times.pop(""))
    parts = [Part(name, step - median(own), 1 - median(own) / step) for name, own in times.items()]
    return Anatomy(step, tuple(sorted(parts, key=lambda part: -part.seconds)))


def _timed(pace: Pace, steps: int) -> Callable[[], float]:
    def seconds_per_step() -> float:
        laps = [pace.lap(steps)]  # in chunks, as training goes: some work is done once for all steps of a chunk
        while (left := steps - sum(lap.steps for lap in laps)) > 0:
            laps.append(pace.lap(left))
        return sum(lap.seconds for lap in laps) / steps

    return seconds_per_step


def _variants(setup: Setup) -> dict[str, Setup]:
    """Return the group without its method, without the update, and without clipping, as far as it has them."""
    learner = setup.learner
    found = {"update of the parameters": setup._replace(learner=_without_update(learner))}
    if learner.optimiser.clip_norm is not None:
        unclipped = learner.optimiser._replace(clip_norm=None)
        found["clipping"] = setup._replace(learner=learner._replace(optimiser=unclipped))
    if setup.shared.method.name != NAIVE:
        found[f"the method ({setup.shared.method.name} instead of {NAIVE})"] = _naive(setup)
    return found


def _without_update(learner: Learner) -> Learner:
    """Return *learner* whose optimiser does nothing; an update that folds into products has no cost of its own, and stays."""

    def update(params: Params, _grads: Params, state: State) -> tuple[Params, State]:
        return params, state

    own = learner.optimiser
    still = own._replace(update=update, alone=own.alone and update, stacked=own.stacked and update)
    return learner._replace(optimiser=still)


def _naive(setup: Setup) -> Setup:
    entry = catalog.entry("method", NAIVE)
    runs = [replace(run, method=Plugin(name=NAIVE), memory=None) for run in setup.runs]
    learner = setup.learner._replace(strategy=entry.make(entry.settings()))
    return prepare(runs, learner, setup.stream, device=setup.device, dtype=setup.dtype)
