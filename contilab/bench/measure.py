"""Measure how many samples per second a model trains on this machine: every form of the step, alone and beside others.

What is measured is the engine's own training loop on inputs of noise: draws, gathering, forward, backward and update. All forms
of one model and number of members take turns, with the loop that one would write by hand and, on a processor with several
cores, with as many processes of fewer threads that train a group each.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch

from contilab.bench.arithmetic import flops_per_sample
from contilab.bench.baseline import OneAtATime
from contilab.bench.bounds import Bounds, bounds
from contilab.bench.crew import Crew
from contilab.bench.motion import Motion
from contilab.bench.noise import group, shape_of
from contilab.bench.rounds import Rounds, Speed, middle, rounds
from contilab.engine.choice.form import Form
from contilab.engine.environment import TABLE
from contilab.engine.setup import Setup
from contilab.hardware.peak import PeakMemory
from contilab.hardware.precision import candidates
from contilab.hardware.profile import Rate, Shape
from contilab.spec.sections import Plugin

REPETITIONS = 5
BASELINE = "one at a time"
AUTO = "auto"


class Wanted(NamedTuple):
    """What is to be measured. *precisions*: fp32, bf16, or auto for all that the device offers. *compiles*: off, on."""

    model: Plugin
    members: int
    batch: int
    method: str = "naive"
    device: str = "cpu"
    precisions: tuple[str, ...] = ("fp32", AUTO)
    compiles: tuple[str, ...] = ("off", "on")
    repetitions: int = REPETITIONS
    seconds: float = 0.3


class Contender(NamedTuple):
    """A form, the number of processes that train by it at once, and the threads of each."""

    form: Form
    processes: int
    threads: int


class Row(NamedTuple):
    """One measurement, as the JSON file holds it; without *samples_per_s* there is a *reason*."""

    model: str
    members: int
    batch: int
    precision: str
    compile: str
    execution: str
    threads: int
    processes: int
    samples_per_s: float | None
    spread: float | None
    percent_of_gemm_bound: float | None
    reason: str = ""


class Measured(NamedTuple):
    """All rows of one model and number of members, and what stands beside them."""

    shape: Shape
    rows: tuple[Row, ...]
    rates: tuple[Rate, ...]
    one_at_a_time: float
    bounds: Bounds
    flops_per_sample: float
    foreign_cores: float
    again: int

    def against(self, most: Bounds) -> "Measured":
        """Return the same beside the bounds *most*, which may be larger than those that were measured with it."""
        return self._replace(bounds=most, rows=tuple(self._percent(row, most) for row in self.rows))

    def _percent(self, row: Row, most: Bounds) -> Row:
        if row.samples_per_s is None:
            return row
        percent = 100 * row.samples_per_s * self.flops_per_sample / (most.gemm_gflops * 1e9)
        return row._replace(percent_of_gemm_bound=round(percent, 1))


def measure(wanted: Wanted, crew: Crew | None = None) -> Measured:
    """Return what was measured; *crew*: processes that are to train beside each other."""
    setup = group(wanted.model, members=wanted.members, batch=wanted.batch, method=wanted.method, device=wanted.device)
    threads = torch.get_num_threads()
    before = bounds(wanted.device)
    field = _Field(setup, threads, crew, _forms(wanted, setup))
    if crew:
        _seat(crew, wanted, threads // len(crew))
    found = rounds({BASELINE: _baseline(setup), **field.speeds}, repetitions=wanted.repetitions, seconds=wanted.seconds)
    most = before.best_of(bounds(wanted.device))
    rows = [_row(wanted, contender, found) for contender in field.speeds]
    rows += [_refused(wanted, form, threads, reason) for form, reason in field.refused.items()]
    measured = Measured(
        shape=shape_of(setup),
        rows=tuple(rows),
        rates=tuple(_rates(rows, field.member_bytes)),
        one_at_a_time=middle(found.speeds(BASELINE))[0],
        bounds=most,
        flops_per_sample=flops_per_sample(setup),
        foreign_cores=found.foreign_cores,
        again=found.again,
    )
    return measured.against(most)


class _Field:
    """The contenders for *setup*: their speeds as functions, the forms that refuse, and the memory of a member by form."""

    def __init__(self, setup: Setup, threads: int, crew: Crew | None, forms: Sequence[Form]) -> None:
        self.setup = setup
        self.speeds: dict[object, Speed] = {}
        self.refused: dict[Form, str] = {}
        self.member_bytes: dict[Form, int] = {}
        for form in forms:
            if form.execution not in (TABLE.compiled if form.compile == "on" else TABLE.eager):
                self.refused[form] = f"there is no compiled form of {form.execution}"
            elif reason := TABLE.refusal(form, setup.learner, str(setup.device)):
                self.refused[form] = reason
            else:
                self.speeds[Contender(form, 1, threads)] = self._alone(form)
                if crew:
                    self.speeds[Contender(form, len(crew), threads // len(crew))] = partial(crew.speed, form)

    def _alone(self, form: Form) -> Speed:
        motions: list[Motion] = []

        def speed(seconds: float) -> float:
            if motions:
                return motions[0].speed(seconds)
            with PeakMemory(str(self.setup.device)) as memory:  # the first call
                motions.append(Motion(self.setup, form))
                found = motions[0].speed(seconds)
            self.member_bytes[form] = memory.peak_bytes // len(self.setup.runs)
            return found

        return speed


def _forms(wanted: Wanted, setup: Setup) -> list[Form]:
    offered = candidates(str(setup.device))
    named = [name for word in wanted.precisions for name in (offered if word == AUTO else (word,))]
    return [
        Form(execution, precision, compiled)
        for execution in TABLE.offered_on(str(setup.device))
        for precision in dict.fromkeys(named)
        for compiled in wanted.compiles
    ]


def _seat(crew: Crew, wanted: Wanted, threads: int) -> None:
    crew.sit(
        model=wanted.model.name,
        settings=wanted.model.settings,
        threads=threads,
        members=wanted.members,
        batch=wanted.batch,
        method=wanted.method,
        device=wanted.device,
    )


def _baseline(setup: Setup) -> Speed:
    alone = OneAtATime(setup)
    return lambda seconds: alone.during(seconds).speed


def _row(wanted: Wanted, contender: object, found: Rounds) -> Row:
    assert isinstance(contender, Contender)  # noqa: S101 - the field names nothing else
    if contender in found.failed:
        return _without(wanted, contender, found.failed[contender])
    speed, spread = middle(found.speeds(contender))
    return _without(wanted, contender, "")._replace(samples_per_s=round(speed, 1), spread=round(spread, 3))


def _refused(wanted: Wanted, form: Form, threads: int, reason: str) -> Row:
    return _without(wanted, Contender(form, 1, threads), reason)


def _without(wanted: Wanted, contender: Contender, reason: str) -> Row:
    form = contender.form
    return Row(
        model=wanted.model.name,
        members=wanted.members,
        batch=wanted.batch,
        precision=form.precision,
        compile=form.compile,
        execution=form.execution,
        threads=contender.threads,
        processes=contender.processes,
        samples_per_s=None,
        spread=None,
        percent_of_gemm_bound=None,
        reason=reason,
    )


def _rates(rows: Sequence[Row], member_bytes: dict[Form, int]) -> Iterator[Rate]:
    for row in rows:
        if row.samples_per_s:
            form = Form(row.execution, row.precision, row.compile)
            yield Rate(*form, row.threads, row.processes, row.samples_per_s, row.spread or 0.0, member_bytes.get(form, 0))
